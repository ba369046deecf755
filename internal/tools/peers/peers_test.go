package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

func TestSettings(t *testing.T) {
	good := settings{
		collective: "alltoall",
		transport:  "tcp",
		np:         2,
		min:        4,
		max:        100,
		step:       4,
		runs:       1,
		streams:    1,
	}
	check.OK(t, good.check())
	check.Slice(t, good.sizes(), []int{4, 16, 64}, "sizes")
	for i, change := range []func(s *settings){
		func(s *settings) { s.collective = "scan" },
		func(s *settings) { s.transport = "udp" },
		func(s *settings) { s.np = 1 },
		func(s *settings) {
			s.transport = "veth"
			s.np = 3
		},
		func(s *settings) { s.min = 6 },
		func(s *settings) { s.max = 3 },
		func(s *settings) { s.step = 1 },
		func(s *settings) { s.runs = 0 },
	} {
		s := good
		change(&s)
		check.That(t, s.check() != nil, "change %d: %+v is taken", i, s)
	}
	var s size
	for text, want := range map[string]size{"4": 4, "64K": 64 << 10, "2m": 2 << 20} {
		err := s.Set(text)
		check.That(t, err == nil && s == want, "%s: %v, %v", text, s, err)
	}
	check.That(t, s.Set("4 K") != nil && s.Set("-4") != nil, "sizes that are none are taken")
}

func TestRowsAreSettings(t *testing.T) {
	for _, r := range rows() {
		s, err := parse([]string{"-row", r.name, "gorun"}, io.Discard)
		check.That(t, err == nil && s.row == r.name && s.gorun == "gorun" && r.goal > 0, "%s: %+v, %v", r.name, s, err)
	}
	s, err := parse([]string{"-runs", "2", "-row", "alltoall-8", "-np", "3", "gorun"}, io.Discard)
	check.That(t, err == nil && s.runs == 2 && s.np == 3 && s.collective == "alltoall" && s.transport == "tcp",
		"flags do not change a row: %+v, %v", s, err)
	for _, args := range [][]string{{"-row", "small-3", "gorun"}, {}, {"-np", "1", "gorun"}, {"-np", "many", "gorun"}} {
		check.Error(parse(args, io.Discard)).Any(t, args, "is taken")
	}
}

func TestSidesTakeTurns(t *testing.T) {
	var order string
	said := errors.New("said so")
	libraries := make([]library, 3)
	for i, name := range []string{"a", "b", "c"} {
		libraries[i] = library{name: name, run: func(_ context.Context, bytes int) (result, error) {
			order += name
			return result{median: float64(len(order)), p99: float64(bytes)}, nil
		}}
	}
	results, err := measure(t.Context(), settings{
		min:  4,
		max:  16,
		step: 4,
		runs: 3,
	}, libraries)
	check.That(t, err == nil && order == "abcbcacababcbcacab" && results[0][4] == (result{median: 6, p99: 4}) &&
		results[0][16] == (result{median: 15, p99: 16}),
		"%s: %v, %v", order, results, err)
	libraries[1].run = func(context.Context, int) (result, error) { return result{}, said }
	if _, err := measure(t.Context(), settings{
		min:  4,
		max:  4,
		step: 4,
		runs: 1,
	}, libraries); !errors.Is(err, said) || !strings.HasPrefix(err.Error(), "b, 4 bytes: ") {
		t.Errorf("%v", err)
	}
}

func TestReport(t *testing.T) {
	r := report{
		settings: settings{
			row:        "wire",
			collective: "allreduce",
			transport:  "tcp",
			np:         2,
			min:        1000,
			max:        4000,
			step:       4,
			runs:       3,
			svg:        filepath.Join(t.TempDir(), "p.svg"),
		},
		about:     "here",
		libraries: []library{{name: "ring"}, {name: "Open MPI"}, {name: "Gloo"}},
		results: []map[int]result{
			{1000: {2, 3, 1}, 4000: {4, 5, 2}}, {1000: {5, 6, 0}, 4000: {50, 60, 0}},
			{1000: {20, 30, 0}, 4000: {3, 4, 0}},
		},
	}
	var out strings.Builder
	must.OK(t, r.write(&out))
	want := `
| bytes | ring | p99 | Open MPI | p99 | Gloo | p99 | best peer / ring | its p99 / ring's | plain socket | ring GB/s | plain socket GB/s | ring / plain socket, speed |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
| 1000 | 2 | 3 | 5 | 6 | 20 | 30 | 2.50 | 2.00 | 1 | 0.50 | 1.00 | 0.50 |
| 4000 | 4 | 5 | 50 | 60 | 3 | 4 | 0.75 | 0.80 | 2 | 1.00 | 2.00 | 0.50 |

wire: 0.75 times as fast at worst, at 4000 bytes; the goal is 0.92; p99 0.80 at worst
`
	check.That(t, strings.HasSuffix(out.String(), want), "got\n%s", out.String())
	svg, err := os.ReadFile(r.svg)
	check.That(t, err == nil && strings.Count(string(svg), "<polyline") == 4, "%v, %.100s", err, svg)
	r.libraries = r.libraries[:1]
	check.Equal(t, r.verdict(), "\nwire: 0.50 times as fast at worst, at 1000 bytes; the goal is 0.92\n", "alone")
	r.transport = "shm"
	r.row = ""
	r.svg = ""
	got := r.table()
	check.That(t, strings.HasSuffix(got, "| 1000 | 2 | 3 |\n| 4000 | 4 | 5 |\n") && r.verdict() == "", "got\n%s", got)
}

func TestSlowRunsAreCounted(t *testing.T) {
	runs := make([]map[int]float64, 5)
	for i := range runs {
		runs[i] = map[int]float64{}
		for bytes := slowFrom; bytes <= slowTo; bytes *= slowStep {
			runs[i][bytes] = 1
		}
	}
	runs[1][4] = 20
	runs[1][64] = 6
	runs[3][64] = 5.1
	runs[4][16] = 5
	got := slowTable(runs)
	for _, want := range []string{"| 4 | 1 | 20 | 1 |", "| 16 | 1 | 5 | 0 |", "| 64 | 1 | 6 | 2 |",
		"\n2 of 5 runs are slow"} {
		check.That(t, strings.Contains(got, want), "no %q in\n%s", want, got)
	}
}

func TestReading(t *testing.T) {
	got, err := read(exec.Command("echo", "1.5 2"))
	check.That(t, err == nil && got == (result{median: 1.5, p99: 2}), "%v, %v", got, err)
	check.Error(read(exec.Command("echo", "fast"))).Any(t, "a line without times is taken")
	if got, err := cpuList("0-2,5"); err != nil || !slices.Equal(got, []string{"0", "1", "2", "5"}) {
		t.Errorf("%v, %v", got, err)
	}
	check.Error(cpuList("0-")).Any(t, "half a range is taken")
}

func TestPinnedRanks(t *testing.T) {
	lab.Need(t, "taskset")
	cpus := must.Get(allowed())(t)
	g := &ground{cpus: cpus, turn: 1}
	for rank, name := range []string{"GORUN_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"} {
		want := cpus[rank%len(cpus)]
		wrapped := g.command(t.Context(), append(g.wrapper(), "grep", "Cpus_allowed_list", "/proc/self/status"))
		wrapped.Env = append(os.Environ(), name+"="+[]string{"0", "1", "2"}[rank])
		direct := g.rank(t.Context(), rank, []string{"grep", "Cpus_allowed_list", "/proc/self/status"})
		a, aerr := wrapped.Output()
		b, berr := direct.Output()
		check.That(t, aerr == nil && berr == nil && string(a) == string(b) && strings.Fields(string(a))[1] == want,
			"%s=%d: %s %v, %s %v, want processor %s", name, rank, a, aerr, b, berr, want)
	}
}

func TestNetworkComesAndGoes(t *testing.T) {
	if os.Getuid() != 0 {
		lab.Skip(t, "needs root")
	}
	lab.Need(t, "unshare", "nsenter", "ip", "ssh-keygen")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	n := must.Get(newNetwork(ctx, t.TempDir(), 2, pairs("")))(t)
	g := &ground{network: n, addrs: []string{n.hosts[0].addr, n.hosts[1].addr}}
	out, err := g.rank(ctx, 1, []string{"ip", "-brief", "-4", "addr", "show", "dev", "eth0"}).Output()
	check.That(t, err == nil && strings.Contains(string(out), n.hosts[1].addr+"/24"), "%v, %s", err, out)
	check.OK(t, n.close())
	check.That(t, inside(ctx, n.hosts[0].pid, "true") != nil, "the namespace is still there")
}
