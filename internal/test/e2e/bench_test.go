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
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/ringtest"
)

// benchRows returns the rows that a benchmark printed as JSON.
func benchRows(t *testing.T, r *run) (rows []bench.Row) {
	t.Helper()
	for _, line := range r.lines() {
		var row bench.Row
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
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
			args = append([]string{"bench", collective, "--json", "--min", "48", "--max", "512K", "--stepfactor", "64", "--time", "0.002"}, args...)
			rows := benchRows(t, start(t, nil, args...).want(0))
			want := 3 * 2 // 48, 3K and 192K
			if slices.Contains(single, collective) {
				want = 3
			}
			if len(rows) != want {
				t.Errorf("%q: %d rows, want %d", args, len(rows), want)
			}
			for _, row := range rows {
				if row.Wrong != 0 || row.Median <= 0 || row.Collective != collective || row.Bytes != 4*row.Count || row.Ranks < 2 {
					t.Errorf("%q: %+v", args, row)
				}
			}
		}
	}
}

func TestBenchTypesAndOperations(t *testing.T) {
	rows := benchRows(t, start(t, nil, "bench", "reduce_scatter", "-np", "2", "--json", "--min", "1K", "--max", "1K", "--time", "0.001", "--type", "half,int8", "--op", "all").want(0))
	seen := map[string]bool{}
	for _, row := range rows {
		seen[row.Type+" "+row.Op] = true
		if row.Wrong != 0 {
			t.Errorf("%+v", row)
		}
	}
	// Half-precision values have no bitwise operations.
	if len(rows) != 2*(5+8) || len(seen) != 5+8 || !seen["half avg"] || !seen["int8 bxor"] || seen["half bxor"] {
		t.Errorf("%d rows, %v", len(rows), seen)
	}
}

func TestBenchTableAndPlot(t *testing.T) {
	plot := filepath.Join(t.TempDir(), "p.svg")
	r := start(t, nil, "bench", "allreduce", "-np", "2", "--max", "64", "--time", "0.002", "--plot", plot).want(0)
	if lines := r.lines(); len(lines) != 3+4 || !strings.Contains(lines[2], "busbw") || !strings.HasPrefix(strings.TrimSpace(lines[3]), "8 ") {
		t.Errorf("table:\n%s", &r.out)
	}
	svg, err := os.ReadFile(plot)
	if err != nil || !strings.HasPrefix(string(svg), "<svg") || strings.Count(string(svg), "<polyline") != 2 {
		t.Errorf("plot: %v, %.100q", err, svg)
	}
	r = start(t, nil, "bench", "alltoall", "-np", "2", "--max", "8", "--time", "0.002").want(0)
	if lines := r.lines(); len(lines) != 3+1 || strings.Count(lines[3], "N/A") != 5 {
		t.Errorf("table:\n%s", &r.out)
	}
}

func TestBenchUsage(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"alreduce"}, []string{"alreduce", "allreduce, allgather, broadcast"}},
		{[]string{"allreduce", "--min", "0"}, []string{"--min"}},
		{[]string{"allreduce", "--max", "big"}, []string{"bytes"}},
		{[]string{"allreduce", "--stepfactor", "1"}, []string{"--stepfactor 1"}},
		{[]string{"allreduce", "--streams", "0"}, []string{"--streams 0"}},
		{[]string{"allreduce", "--transport", "ib"}, []string{`"ib"`, "shm"}},
		{[]string{"allreduce", "--type", "quad"}, []string{`no type "quad"`}},
		{[]string{"allreduce", "--op", "band"}, []string{"band is not defined for float"}},
		{[]string{"broadcast", "--op", "sum"}, []string{"broadcast has no operation"}},
		{[]string{"broadcast", "--device", "tpu"}, []string{`"tpu"`, "cuda"}},
		{[]string{"broadcast", "--device", "cuda"}, []string{"gorun-bench", "make build"}},
	} {
		start(t, nil, append([]string{"bench"}, tt.args...)...).want(2, tt.want...)
	}
}

// TestBenchDevice runs with stand-ins for the GPU libraries, whose device memory is the host's, and then without a driver.
func TestBenchDevice(t *testing.T) {
	lab.Need(t, "cc")
	dir := t.TempDir()
	if err := ringtest.Standins(root+"/ring/internal/nccl/testdata", dir); err != nil {
		t.Fatal(err)
	}
	gorun := filepath.Join(dir, "gorun")
	if err := os.Link(binary("gorun"), gorun); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "gorun-bench"), "./cmd/gorun-bench")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program := []string{"bench", "allreduce", "-np", "2", "--gpus-per-rank", "none", "--device", "cuda", "--max", "64", "--time", "0.002"}
	env := []string{"RING_CUDA_LIB=" + filepath.Join(dir, "libcuda.so.1"), "RING_NCCL_LIB=" + filepath.Join(dir, "libnccl.so.2"), "STANDIN_DIR=" + t.TempDir()}
	r := startPath(t, nil, gorun, env, program...).want(0)
	if lines := r.lines(); len(lines) != 4+4 || !strings.HasPrefix(lines[0], "# memory of GPUs, by NCCL ") {
		t.Errorf("table:\n%s", &r.out)
	}
	startPath(t, nil, gorun, []string{"RING_CUDA_LIB=/nowhere/libcuda.so.1"}, program...).want(1, "no GPU can be used")
}
