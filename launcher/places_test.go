package launcher

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gorun/gorun/hostfile"
)

func TestBindingLines(t *testing.T) {
	plan, err := NewPlan([]hostfile.Host{{Name: "f1", Slots: 2}, {Name: "f2", Slots: 1}}, Request{MapBy: ByNode})
	if err != nil {
		t.Fatal(err)
	}
	places := [][]Placement{
		{{Rank: 0, CPUs: "0-1", Where: "cores 0-1 of socket 0", Threads: 2}, {Rank: 2, CPUs: "5", Where: "core\x1b 5 of socket 0", Threads: 1}},
		{{Rank: 1, Threads: 2}},
	}
	want := "rank 0 on f1: cores 0-1 of socket 0 (cpus 0-1)\nrank 1 on f2: not bound\nrank 2 on f1: core? 5 of socket 0 (cpu 5)"
	if got := strings.Join(bindingLines(plan, places), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := threadsText(plan, places), "OMP_NUM_THREADS is not set; ranks get 2 on f1 and f2; 1 on f1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := threadsText(plan, [][]Placement{{{Rank: 0}}, nil}); got != "" {
		t.Errorf("nothing was set: %q", got)
	}
	want = "ranks are contained by cgroup v2 on f1; their?tree on f2"
	if got := containedText(plan.Hosts, []string{"cgroup v2", "their\x1btree"}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := containedText(plan.Hosts, []string{"cgroup v2", "cgroup v2"}), "ranks are contained by cgroup v2 on f1 and f2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := containedText(plan.Hosts, make([]string, 2)); got != "" {
		t.Errorf("agents said nothing: %q", got)
	}
	if got := strings.Join(bindingLines(plan, make([][]Placement, 2)), "\n"); strings.Count(got, ": not bound") != 3 {
		t.Errorf("without places: %q", got)
	}
}

func TestCoresOfHosts(t *testing.T) {
	d := newDisk(map[string]string{"/bin/gorun": "build us"})
	machines := map[string]*machine{"a": {disk: d, cores: 16}, "b": {disk: d}, "bad": {disk: newDisk(nil), put: errors.New("disk full")}}
	opts := Options{Exe: Executable{Path: "/bin/gorun", Build: "us", Hash: func() (string, error) { return strings.Repeat("0", 64), nil }},
		Dial: func(_ context.Context, h hostfile.Host) (Host, error) { return machines[h.Name], nil }}
	got, err := Cores(t.Context(), []hostfile.Host{{Name: "a"}, {Name: "b"}}, opts)
	if err != nil || len(got) != 2 || got[0] != 16 || got[1] != 1 {
		t.Errorf("%v, %v", got, err)
	}
	for name, m := range machines {
		if m.mu.Lock(); name != "bad" && (!m.closed || !m.left) {
			t.Errorf("%s is still in use", name)
		}
		m.mu.Unlock()
	}
	var failed *LaunchError
	if _, err := Cores(t.Context(), []hostfile.Host{{Name: "a"}, {Name: "bad"}}, opts); !errors.As(err, &failed) || len(failed.Hosts) != 1 || failed.Hosts[0].Host != "bad" {
		t.Errorf("%v, want an error about one host", err)
	}
}
