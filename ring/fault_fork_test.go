package ring_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// R10: a program that a rank starts, which is all that a Go program's fork can become, has none of the rank's sockets and
// memory; and while it lives the rank's calls go on, and its end is seen.
func TestR10StartedPrograms(t *testing.T) {
	lab.Need(t, "ls", "sleep")
	for _, g := range grounds() {
		t.Run(g.name, func(t *testing.T) {
			comms := g.join(t, g.door(t))
			f, err := formOf("allreduce")
			if err != nil {
				t.Fatal(err)
			}
			call := func(rank int) error { return f.once(comms[rank], seat{n: 3000}, plainly) }
			if err := ringtest.Each(g.size, call); err != nil {
				t.Fatal(err)
			}
			child := exec.Command("sleep", "60")
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
			out, err := exec.Command("ls", "-l", "/proc/self/fd").CombinedOutput()
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(out), "socket:") || strings.Contains(string(out), "memfd:") {
				t.Errorf("a program that a rank started has:\n%s", out)
			}
			if err := ringtest.Each(g.size, call); err != nil {
				t.Error(err)
			}
			within(t, told, func() {
				waiting := make(chan error, 1)
				go func() { waiting <- ring.Barrier(ctx, comms[0]) }()
				closeAll(comms[1:])
				if err := <-waiting; err == nil {
					t.Error("a barrier is over without the ranks that have closed")
				}
			})
		})
	}
}
