package lab_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

func TestSlurmRunsAStepOnEveryNodeAndEnds(t *testing.T) {
	must.HaveTime(t)
	begun := time.Now()
	s, err := lab.StartSlurm(t.Context(), 3)
	var missing *lab.MissingError
	if errors.As(err, &missing) {
		lab.Skip(t, err.Error())
	}
	must.OK(t, err)
	defer s.Close()
	t.Logf("started after %v", time.Since(begun))
	mark := "GORUN_LAB_TEST=" + t.Name()
	cmd := s.Command(t.Context(), "salloc", "-Q", "-N3", "-n5", "srun", "sh", "-c", "echo $SLURMD_NODENAME")
	cmd.Env = append(cmd.Env, mark)
	out, err := cmd.CombinedOutput()
	got := strings.Fields(string(out))
	slices.Sort(got)
	want := []string{"n1", "n1", "n1", "n2", "n3"}
	check.That(t, err == nil && slices.Equal(got, want), "%q, %v", out, err)
	// An abandoned job ends with the cluster.
	cmd = s.Command(t.Context(), "sbatch", "-N2", "-o", s.Dir+"/out", "--wrap", "srun sh -c 'echo up; exec sleep 1000'")
	cmd.Env = append(cmd.Env, mark)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v", out, err)
	}
	must.Until(t, "two steps", func() bool {
		text, _ := os.ReadFile(s.Dir + "/out")
		return strings.Count(string(text), "up\n") == 2
	})
	check.OK(t, s.Close())
	left := append(lab.Processes(mark), lab.Processes(s.Dir)...)
	check.That(t, len(left) == 0, "left: %v", left)
	check.Error(os.Stat(s.Dir)).Any(t, s.Dir, "is still there")
}
