package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
)

func TestSettings(t *testing.T) {
	good := settings{transport: "tcp", np: 2, min: 4, max: 100, runs: 1, streams: 1}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	if got := good.sizes(); !slices.Equal(got, []int{4, 16, 64}) {
		t.Errorf("sizes %v", got)
	}
	for i, change := range []func(s *settings){
		func(s *settings) { s.transport = "udp" },
		func(s *settings) { s.np = 1 },
		func(s *settings) { s.transport, s.np = "veth", 3 },
		func(s *settings) { s.min = 6 },
		func(s *settings) { s.max = 3 },
		func(s *settings) { s.runs = 0 },
	} {
		s := good
		change(&s)
		if s.check() == nil {
			t.Errorf("change %d: %+v is taken", i, s)
		}
	}
	var s size
	for text, want := range map[string]size{"4": 4, "64K": 64 << 10, "2m": 2 << 20} {
		if err := s.Set(text); err != nil || s != want {
			t.Errorf("%s: %v, %v", text, s, err)
		}
	}
	if s.Set("4 K") == nil || s.Set("-4") == nil {
		t.Error("sizes that are none are taken")
	}
}

func TestRoundsAlternate(t *testing.T) {
	var order string
	said := errors.New("said so")
	sides := make([]side, 3)
	for i, name := range []string{"a", "b", "c"} {
		sides[i] = side{name: name, run: func(context.Context) (map[int]float64, error) {
			order += name
			return map[int]float64{4: float64(len(order))}, nil
		}}
	}
	samples, err := rounds(t.Context(), sides, 3)
	if err != nil || order != "abcbcacab" || !slices.Equal(samples[0][4], []float64{1, 6, 8}) {
		t.Errorf("%s: %v, %v", order, samples, err)
	}
	sides[1].run = func(context.Context) (map[int]float64, error) { return nil, said }
	if _, err := rounds(t.Context(), sides, 1); !errors.Is(err, said) || !strings.HasPrefix(err.Error(), "b: ") {
		t.Errorf("%v", err)
	}
}

func TestReport(t *testing.T) {
	r := report{
		settings: settings{transport: "tcp", np: 2, min: 1000, max: 4000, runs: 3, svg: filepath.Join(t.TempDir(), "p.svg")},
		about:    "here",
		sides:    []side{{name: "ring"}, {name: "sendrecv", moves: true}, {name: "Gloo"}, {name: "plain", moves: true, source: []string{"go"}}},
		samples: []map[int][]float64{
			{1000: {3, 1, 2}, 4000: {4}}, {1000: {1}}, {1000: {20}, 4000: {40}}, {1000: {1}, 4000: {2}},
		},
	}
	var out strings.Builder
	if err := r.write(&out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{
		"| bytes | ring | sendrecv | Gloo | plain | best peer / ring | ring GB/s | sendrecv GB/s | Gloo GB/s | plain GB/s | ring / plain, speed |",
		"|---|---|---|---|---|---|---|---|---|---|---|",
		"| 1000 | 2 | 1 | 20 | 1 | 10.0 | 0.50 | 1.00 | 0.05 | 1.00 | 0.50 |",
		"| 4000 | 4 | | 40 | 2 | 10.0 | 1.00 | | 0.10 | 2.00 | 0.50 |",
	}
	if got := lines[len(lines)-4:]; !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	if svg, err := os.ReadFile(r.svg); err != nil || strings.Count(string(svg), "<polyline") != 4 {
		t.Errorf("%v, %.100s", err, svg)
	}
	r.transport, r.sides, r.samples, r.svg = "shm", r.sides[:3], r.samples[:3], ""
	if got := r.table(); !strings.Contains(got, "| 1000 | 2 | 1 | 20 | 10.0 |\n") {
		t.Errorf("got\n%s", got)
	}
}

func TestReading(t *testing.T) {
	if got, err := parse("4 1.5\n16 2\n"); err != nil || len(got) != 2 || got[4] != 1.5 || got[16] != 2 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := parse("4 fast\n"); err == nil {
		t.Error("a line without a time is taken")
	}
	if got, err := cpuList("0-2,5"); err != nil || !slices.Equal(got, []string{"0", "1", "2", "5"}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := cpuList("0-"); err == nil {
		t.Error("half a range is taken")
	}
}

func TestPinnedRanks(t *testing.T) {
	lab.Need(t, "taskset")
	cpus, err := allowed()
	if err != nil {
		t.Fatal(err)
	}
	g := &ground{cpus: cpus}
	for rank, name := range []string{"GORUN_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"} {
		want := cpus[rank%len(cpus)]
		wrapped := g.command(t.Context(), append(g.wrapper(), "grep", "Cpus_allowed_list", "/proc/self/status"))
		wrapped.Env = append(os.Environ(), name+"="+[]string{"0", "1", "2"}[rank])
		direct := g.rank(t.Context(), rank, []string{"grep", "Cpus_allowed_list", "/proc/self/status"})
		a, aerr := wrapped.Output()
		b, berr := direct.Output()
		if fields := strings.Fields(string(a)); aerr != nil || berr != nil || string(a) != string(b) || fields[1] != want {
			t.Errorf("%s=%d: %s %v, %s %v, want processor %s", name, rank, a, aerr, b, berr, want)
		}
	}
}

func TestNetworkComesAndGoes(t *testing.T) {
	if os.Getuid() != 0 {
		lab.Skip(t, "needs root")
	}
	lab.Need(t, "unshare", "nsenter", "ip", "ssh-keygen")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	n, err := newNetwork(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	g := &ground{network: n, addrs: []string{n.hosts[0].addr, n.hosts[1].addr}}
	if out, err := g.rank(ctx, 1, []string{"ip", "-brief", "-4", "addr", "show", "dev", "eth0"}).Output(); err != nil || !strings.Contains(string(out), n.hosts[1].addr+"/24") {
		t.Errorf("%v, %s", err, out)
	}
	if err := n.close(); err != nil {
		t.Error(err)
	}
	if err := inside(ctx, n.hosts[0].pid, "true"); err == nil {
		t.Error("the namespace is still there")
	}
}
