package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// R2: a host's link is cut while ranks of all hosts train. The other ranks end by themselves,
// before gorun ends them.
func TestRanksReportALostHost(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	script := `trap '' TERM; echo up; ` + command.Binary("mnist") + ` --epochs 100000 >/dev/null; echo ended`
	r := command.Start(t, c, "-np", "4", "-H", "f1:2,f2:2", "--grace", "20", "sh", "-c", script)
	must.Until(t, "the ranks to train", func() bool {
		training := 0
		for _, pid := range lab.Processes(r.Mark) {
			if strings.HasPrefix(command.ProcFile(pid, "cmdline"), command.Binary("mnist")) {
				training++
			}
		}
		return training == 4 && strings.Count(r.Out.String(), "up") == 4
	})
	time.Sleep(500 * time.Millisecond) // into the middle of the training
	cut := time.Now()
	must.OK(t, c.Cut(t.Context(), "f2"))
	must.Until(t, "the ranks of f1 to end", func() bool { return strings.Count(r.Out.String(), "ended") == 2 })
	took := time.Since(cut)
	check.That(t, took <= 8500*time.Millisecond, "the ranks that were left heard after %v", took)
	for _, rank := range []string{"f1:0: ", "f1:1: "} {
		check.That(t, strings.Contains(r.Err.String(), rank), "%sdid not say why it ended:\n%s", rank, &r.Err)
	}
	r.Wait()
}

// R13: a job is killed as a whole at random steps, many times. It leaves nothing with a name.
func TestKilledJobLeavesNothing(t *testing.T) {
	before := shared(t)
	for round := range 6 {
		r := command.Start(t, nil, "-np", "3", command.Binary("mnist"), "--epochs", "100000")
		time.Sleep(time.Duration(40*round) * time.Millisecond) // the moment is what differs
		for _, pid := range append(lab.Processes(r.Mark), r.Cmd.Process.Pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be over
		}
		r.Wait()
		r.NothingLeft(30 * time.Second)
	}
	after := shared(t)
	check.That(t, after == before, "/dev/shm has %s, had %s", after, before)
}

// shared lists the names in /dev/shm that could be a job's.
func shared(t *testing.T) string {
	entries, err := os.ReadDir("/dev/shm")
	if err != nil {
		lab.Skip(t, "no /dev/shm")
	}
	var all []string
	for _, e := range entries {
		if strings.Contains(e.Name(), "gorun") || strings.Contains(e.Name(), "ring") {
			all = append(all, e.Name())
		}
	}
	return fmt.Sprint(all)
}
