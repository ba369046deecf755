package e2e

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"testing"

	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/must"
)

// BenchmarkMPICH compares two ranks on one host under gorun and mpiexec.hydra in turn. Its metrics
// are medians of gorun's values divided by Hydra's of the same turn; the goal is 1. They mean
// something only on an idle machine.
func BenchmarkMPICH(b *testing.B) {
	tree := mpich(b)
	program := mpiProgram(b, tree+"/bin/mpicc", "speed")
	launchers := [2][]string{
		{command.Binary("gorun"), "--prefix", "none", "-np", "2", "-H", "localhost:2", program},
		{tree + "/bin/mpiexec.hydra", "-n", "2", program},
	}
	compareSpeeds(b, launchers, "hydra")
}

// compareSpeeds runs the program speed with two launchers in turn, gorun first.
func compareSpeeds(b *testing.B, launchers [2][]string, peer string) {
	b.Helper()
	names := [3]string{"latency", "allreduce", "bandwidth"}
	var ratios [3][]float64
	for turn := range max(b.N, 21) {
		var got [2][3]float64
		for i := range launchers {
			i ^= turn & 1 // who comes first has the quieter or the busier machine
			got[i] = speeds(b, launchers[i])
		}
		for i := range names {
			ratios[i] = append(ratios[i], got[0][i]/got[1][i])
		}
		b.Logf("gorun %v, %s %v", got[0], peer, got[1])
	}
	for i, name := range names {
		slices.Sort(ratios[i])
		b.ReportMetric(ratios[i][len(ratios[i])/2], name+"/"+peer)
	}
	b.ReportMetric(0, "ns/op")
}

func speeds(b *testing.B, argv []string) (got [3]float64) {
	b.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(b.Context(), argv[0], argv[1:]...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		_, err = fmt.Sscan(string(out), &got[0], &got[1], &got[2])
	}
	must.That(b, err == nil, "%v: %v: %s%s", argv, err, out, &stderr)
	return got
}
