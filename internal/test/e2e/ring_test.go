package e2e

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// lossBits returns the bits of the final loss that every rank of examples/mnist prints.
func lossBits(t *testing.T, r *command.Run, ranks int) string {
	t.Helper()
	found := regexp.MustCompile(`bits ([0-9a-f]{16})\), accuracy ([0-9.]+)`).FindAllStringSubmatch(r.Out.String(), -1)
	must.That(t, len(found) == ranks, "%d ranks printed a final loss, want %d:\n%s", len(found), ranks, &r.Out)
	for _, f := range found {
		check.That(t, f[1] == found[0][1], "losses differ between ranks: %s and %s", f[1], found[0][1])
		check.That(t, f[2] >= "96" || len(f[2]) != 5, "accuracy %s %%, want at least 96", f[2])
	}
	return found[0][1]
}

func TestTrainingOverSSHIsExactAndRepeatable(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(2)...)
	first := lossBits(t, command.Start(t, c, "-np", "4", "-H", "f1:2,f2:2", command.Binary("mnist")).Want(0), 4)
	again := lossBits(t, command.Start(t, c, "-np", "4", "-H", "f1:2,f2:2", command.Binary("mnist")).Want(0), 4)
	check.That(t, again == first, "two runs with one seed ended with losses %s and %s", first, again)
	// Four domains need a network that is said, not measured: then the result does not depend on
	// where the ranks are.
	network := "RING_NETWORK=20us,10Gb/s"
	far := lossBits(t, command.Start(t, c, "-np", "4", "-H", "f1:2,f2:2", "-x", "RING_TRANSPORT=tcp", "-x", network,
		command.Binary("mnist")).Want(0), 4)
	here := lossBits(t, command.StartIn(t, nil, []string{"RING_TRANSPORT=tcp", network}, "-np", "4",
		command.Binary("mnist")).Want(0), 4)
	check.That(t, here == far, "losses over SSH and on one host: %s and %s", far, here)
	// S3
	sealed := lossBits(t, command.Start(t, c, "--encrypt", "-np", "4", "-H", "f1:2,f2:2",
		command.Binary("mnist")).Want(0), 4)
	check.That(t, sealed == first, "losses %s and, encrypted, %s", first, sealed)
	shared := lossBits(t, command.StartIn(t, nil, []string{"RING_TRANSPORT=shm"}, "-np", "4",
		command.Binary("mnist")).Want(0), 4)
	check.Equal(t, lossBits(t, command.Start(t, nil, "-np", "4", command.Binary("mnist")).Want(0), 4), shared,
		"two runs in shared memory ended with losses", shared, "and")
}

// R5: a rank that does not join a call is reported to the user once, and the job goes on when it
// joins. A rank that exits before its last call is an error whatever its exit code. The goal is 30
// s, here 4.
func TestStragglerIsReportedOnce(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(2)...)
	r := command.Start(t, c, "-np", "4", "-H", "f1:2,f2:2", "-x", "RING_STALL=4s", "--output-filename", t.TempDir(),
		command.Binary("mnist"), "--epochs", "100000")
	var away int
	must.Until(t, "rank 2 to train", func() bool {
		for _, pid := range lab.Processes(r.Mark) {
			if strings.Contains(command.ProcFile(pid, "environ"), "GORUN_RANK=2\x00") &&
				strings.HasPrefix(command.ProcFile(pid, "cmdline"), command.Binary("mnist")) {
				away = pid
			}
		}
		return away != 0 && strings.Contains(r.Out.String(), "epoch 1:")
	})
	must.OK(t, syscall.Kill(away, syscall.SIGSTOP))
	must.Until(t, "a report", func() bool { return strings.Contains(r.Err.String(), "has waited") })
	time.Sleep(time.Second) // for those who would report it again
	line := regexp.MustCompile(`(?m)^gorun: rank [013] on f[12]: allreduce, call \d+, has waited 4s for rank 2 on f2$`)
	text := r.Err.String()
	check.That(t, line.MatchString(text) && strings.Count(text, "has waited") == 1, "reported:\n%s", &r.Err)
	epochs := strings.Count(r.Out.String(), "epoch ")
	must.OK(t, syscall.Kill(away, syscall.SIGCONT))
	must.Until(t, "the training to go on", func() bool { return strings.Count(r.Out.String(), "epoch ") > epochs+1 })
	must.OK(t, r.Cmd.Process.Signal(syscall.SIGTERM))
	r.Wait()

	early := `[ $GORUN_RANK = 2 ] && exec ` + command.Binary("mnist") + ` --epochs 1; exec ` + command.Binary("mnist") +
		` --epochs 100000`
	command.Start(t, c, "-np", "4", "-H", "f1:2,f2:2", "sh", "-c", early).Want(1,
		"mnist: ring: allreduce: rank 2 on f2")
}
