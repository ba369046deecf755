package session

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// A job whose agent on this machine is stuck ends with its start timeout all the same: what is
// below a process that was killed may hold its output open.
func TestLocalRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	out, stdout := io.Pipe()
	defer out.Close()
	late := errors.New("late")
	ended := make(chan error, 1)
	go func() {
		ended <- Local{}.Run(ctx, []string{"/bin/sh", "-c", "sleep 600 & echo $!; wait"}, strings.NewReader(""), stdout,
			io.Discard)
	}()
	line := must.Get(bufio.NewReader(out).ReadString('\n'))(t)
	pid := must.Get(strconv.Atoi(strings.TrimSpace(line)))(t)
	cancel(late)
	err := <-ended
	check.Error(err).Is(t, late)
	check.OK(t, syscall.Kill(pid, syscall.SIGKILL), "the process below, which is still there")
}
