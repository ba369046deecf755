package elastic

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/prose"
)

const (
	scriptTimeout = 10 * time.Second
	// drainTime bounds how long a process that the script left in another process group may hold
	// its output open.
	drainTime = time.Second
	maxSaid   = 4 << 10 // kept bytes of the script's stderr
)

// Script is the user's discovery program, which prints the current hosts.
type Script struct {
	Argv    []string      // command run without a shell; a file without #! is run by /bin/sh
	Timeout time.Duration // bound on the run; 0 means 10 s
}

// Run runs the script in its own process group and returns its output. The group is killed when the
// script has ended, when it times out, when it prints more than [MaxOutput], and when ctx ends.
func (s Script) Run(ctx context.Context) ([]byte, error) {
	timeout := s.Timeout
	if timeout == 0 {
		timeout = scriptTimeout
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("did not end within %v, and was killed", timeout))
	defer stop()
	output := &prose.Head{
		Limit: MaxOutput,
		Full:  func() { cancel(fmt.Errorf("printed more than %d bytes, and was killed", MaxOutput)) },
	}
	said := &prose.Head{Limit: maxSaid}
	err := s.run(ctx, s.Argv, output, said)
	if errors.Is(err, syscall.ENOEXEC) {
		err = s.run(ctx, append([]string{"/bin/sh"}, s.Argv...), output, said)
	}
	if err == nil {
		return output.Bytes(), nil
	}
	if text := strings.TrimSpace(string(said.Bytes())); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return nil, err
}

func (s Script) run(ctx context.Context, argv []string, stdout, stderr *prose.Head) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout = stdout
	cmd.Stderr = stderr
	cmd.WaitDelay = drainTime
	// ownGroup may tie the process to this thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = ownGroup()
	if err := cmd.Start(); err != nil {
		return err
	}
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { kill(); close(killed) })
	// The pid cannot be reused before it is reaped, so the kill cannot hit another group.
	awaitEnd(cmd.Process.Pid)
	kill()
	if !stop() {
		<-killed
	}
	err := cmd.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}
