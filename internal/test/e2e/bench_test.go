package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/bench"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
)

// benchRows returns the rows that a benchmark printed as JSON.
func benchRows(t *testing.T, r *command.Run) (rows []bench.Row) {
	t.Helper()
	for _, line := range r.Lines() {
		var row bench.Row
		must.OK(t, json.Unmarshal([]byte(line), &row), line)
		rows = append(rows, row)
	}
	return rows
}

func TestBenchChecksWhatItTimes(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(2)...)
	single := []string{"broadcast", "alltoall", "sendrecv"} // in place or not, not both
	for _, collective := range bench.Collectives() {
		runs := [][]string{
			{"-np", "2", "--transport", "shm"},
			{"-np", "3", "--transport", "shm"},
			{"-np", "2", "--transport", "tcp", "--streams", "2"},
			{"-np", "3", "--transport", "tcp"},
		}
		if slices.Contains([]string{"allreduce", "alltoall", "reduce"}, collective) {
			runs = append(runs, []string{"-F", c.ConfigFile, "-H", "f1:2,f2:1"})
		}
		for _, args := range runs {
			args = append([]string{"bench", collective, "--json", "--min", "48", "--max", "512K", "--stepfactor", "64",
				"--time", "0.002"}, args...)
			rows := benchRows(t, command.Start(t, nil, args...).Want(0))
			want := 3 * 2 // 48, 3K and 192K
			switch {
			case slices.Contains(single, collective):
				want = 3
			case collective == bench.Barrier:
				want = 1
			}
			check.That(t, len(rows) == want, "%q: %d rows, want %d", args, len(rows), want)
			for _, row := range rows {
				if row.Wrong != 0 || row.Median <= 0 || row.Collective != collective || row.Bytes != 4*row.Count ||
					row.Ranks < 2 {
					t.Errorf("%q: %+v", args, row)
				}
			}
		}
	}
}

// TestBenchDevice runs with stand-ins for the GPU libraries, whose device memory is the host's, and
// then without a driver.
func TestBenchDevice(t *testing.T) {
	lab.Need(t, "cc")
	dir := t.TempDir()
	must.OK(t, ringtest.Standins(root+"/ring/internal/nccl/testdata", dir))
	gorun := filepath.Join(dir, "gorun")
	must.OK(t, os.Link(command.Binary("gorun"), gorun))
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "gorun-bench"), "./cmd/gorun-bench")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program := []string{"bench", "allreduce", "-np", "2", "--gpus-per-rank", "none", "--device", "cuda", "--max", "64",
		"--time", "0.002"}
	env := []string{"RING_CUDA_LIB=" + filepath.Join(dir, "libcuda.so.1"), "RING_NCCL_LIB=" +
		filepath.Join(dir, "libnccl.so.2"), "STANDIN_DIR=" + t.TempDir()}
	r := command.StartPath(t, nil, gorun, env, program...).Want(0)
	if lines := r.Lines(); len(lines) != 5+4+3 || !strings.Contains(lines[0], "; memory of GPUs, by NCCL ") {
		t.Errorf("table:\n%s", &r.Out)
	}
	command.StartPath(t, nil, gorun, []string{"RING_CUDA_LIB=/nowhere/libcuda.so.1"}, program...).Want(1,
		"no GPU can be used")
}
