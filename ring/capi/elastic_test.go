package main

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
)

// A C program goes from epoch to epoch: it waits for another process, which comes, is killed, and
// is followed by a third.
func TestElastic(t *testing.T) {
	program := compile(t, "c", "elastic.c")
	w := ringtest.NewWorld(t, 1)
	begin := func(host string) (*ringtest.Member, *lab.Program) {
		m := w.Add(host)
		cmd := exec.CommandContext(t.Context(), program, "200")
		cmd.Env = append(os.Environ(), m.Environ()...)
		return m, lab.Start(t, cmd)
	}
	says := func(p *lab.Program, want string) {
		t.Helper()
		line, err := p.Line()
		must.That(t, line == want, "a process says %q, %v, want %q", line, err, want)
	}
	_, first := begin("host0")
	says(first, "epoch 1: rank 0 of 1")
	m, second := begin("host1")
	says(first, "epoch 2: rank 0 of 2")
	says(second, "epoch 2: rank 1 of 2")
	time.Sleep(20 * time.Millisecond)
	second.Process.Kill()
	w.Ended(m, "killed")
	says(first, "epoch 3: rank 0 of 1")
	_, third := begin("host0")
	says(first, "epoch 4: rank 0 of 2")
	says(third, "epoch 4: rank 1 of 2")
	says(first, "all right")
	says(third, "all right")
	for _, p := range []*lab.Program{first, third} {
		line, err := p.Line()
		check.Equal(t, err, io.EOF, "after its end a process says", line)
	}
}

// Programs that were built before ring_info and ring_init_options grew still work.
func TestStructsGrow(t *testing.T) {
	text := header(t)
	for _, last := range []string{"int64_t left_epoch;", "int32_t first_epoch;"} {
		if _, after, found := strings.Cut(text, last); !found ||
			!strings.HasPrefix(strings.SplitN(after, "\n", 2)[1], "} ring_") {
			t.Errorf("%s is not the last member of its struct: what comes after it has a size of its own to be asked "+
				"for in capi.go", last)
		}
	}
}
