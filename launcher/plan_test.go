package launcher

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/wire"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata; commit them only when the change is understood")

// TestPlanTranscripts compares plans with testdata/plans. A case is a request
// and a hostfile, a line of dashes, and what becomes of them; cases are parted by
// empty lines.
func TestPlanTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/plans/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			old, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var cases []string
			for c := range strings.SplitSeq(strings.TrimSpace(string(old)), "\n\n") {
				input, _, _ := strings.Cut(c, "\n----")
				cases = append(cases, input+"\n----\n"+transcribe(t, input))
			}
			got := strings.Join(cases, "\n")
			switch {
			case *update:
				err = os.WriteFile(name, []byte(got), 0o644)
				if err != nil {
					t.Fatal(err)
				}
			case got != string(old):
				t.Errorf("got:\n%s\nwant:\n%s", got, old)
			}
		})
	}
}

// transcribe plans one case and writes down all that the plan says.
func transcribe(t *testing.T, input string) string {
	var req Request
	hosts := strings.Builder{}
	for line := range strings.Lines(input + "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "plan" {
			hosts.WriteString(line)
			continue
		}
		for _, w := range words[1:] {
			if w == "no-oversubscribe" {
				req.NoOversubscribe = true
			} else if n, err := strconv.Atoi(strings.TrimPrefix(w, "np=")); err == nil {
				req.NP = n
			} else {
				t.Fatalf("%q is no part of a request", w)
			}
		}
	}
	list, err := hostfile.Parse("hosts", strings.NewReader(hosts.String()))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := list.Hosts()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := NewPlan(parsed, req)
	var b strings.Builder
	var few *SlotsError
	if errors.As(err, &few) {
		fmt.Fprintf(&b, "error: %v\nhint: %s\n", err, few.Hint())
		return b.String()
	}
	if err != nil {
		t.Fatal(err)
	}
	b.WriteString(plan.String())
	for _, h := range plan.Hosts[:min(len(plan.Hosts), 6)] {
		for _, r := range h.Ranks {
			fmt.Fprintf(&b, "rank %d is %s.%d, cross %d of %d\n", r.Rank, h.Name, r.LocalRank, r.CrossRank, r.CrossSize)
		}
	}
	for _, w := range plan.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	return b.String()
}

// TestPlanDealsEveryRankOnce holds plans against a dealer that gives out ranks one
// round after the other, and against what the numbers of a rank mean.
func TestPlanDealsEveryRankOnce(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		hosts, req := randomRequest(rnd)
		shares, allowed := dealSlowly(hosts, req)
		plan, err := NewPlan(hosts, req)
		if (err == nil) != allowed {
			t.Fatalf("%+v on %+v: %v, want it allowed: %v", req, hosts, err, allowed)
		}
		if err != nil {
			var few *SlotsError
			if !errors.As(err, &few) || few.Hint() == "" {
				t.Fatalf("%+v on %+v: %#v", req, hosts, err)
			}
			continue
		}
		checkPlan(t, plan, hosts, shares)
	}
}

func randomRequest(rnd *rand.Rand) ([]hostfile.Host, Request) {
	hosts := make([]hostfile.Host, 1+rnd.IntN(12))
	for i := range hosts {
		hosts[i] = hostfile.Host{Name: fmt.Sprint("h", i), Slots: 1 + rnd.IntN(5)}
		if rnd.IntN(20) == 0 {
			hosts[i].MaxSlots = hosts[i].Slots + rnd.IntN(4)
		}
	}
	return hosts, Request{NP: rnd.IntN(60), NoOversubscribe: rnd.IntN(3) == 0}
}

// dealSlowly is the rule in other words: hosts in order take as many ranks as
// they have slots, again and again, until no rank is left.
func dealSlowly(hosts []hostfile.Host, req Request) (shares []int, allowed bool) {
	shares = make([]int, len(hosts))
	slots := 0
	for _, h := range hosts {
		slots += h.Slots
	}
	left := req.NP
	if left == 0 {
		left = slots
	}
	allowed = left <= slots || !req.NoOversubscribe
	for left > 0 {
		before := left
		for i, h := range hosts {
			for range h.Slots {
				if left > 0 && (h.MaxSlots == 0 || shares[i] < h.MaxSlots) {
					shares[i]++
					left--
				}
			}
		}
		if left == before {
			return shares, false
		}
	}
	return shares, allowed
}

func checkPlan(t *testing.T, plan Plan, hosts []hostfile.Host, shares []int) {
	t.Helper()
	var planned []PlannedHost // with every host, also those without ranks
	next := plan.Hosts
	for i, h := range hosts {
		p := PlannedHost{Host: h}
		if shares[i] > 0 {
			p, next = next[0], next[1:]
		}
		if p.Host != h || len(p.Ranks) != shares[i] {
			t.Fatalf("host %d is %+v with %d ranks, want %+v with %d", i, p.Host, len(p.Ranks), h, shares[i])
		}
		planned = append(planned, p)
	}
	if len(next) > 0 {
		t.Fatalf("hosts that nobody named: %+v", next)
	}
	rank := 0
	cross := map[int]int{} // by local rank: how many hosts so far have it
	for _, h := range planned {
		for local, r := range h.Ranks {
			want := wire.Rank{Rank: rank, LocalRank: local, CrossRank: cross[local], CrossSize: r.CrossSize}
			if r != want {
				t.Fatalf("got %+v, want %+v", r, want)
			}
			if plan.host(rank).Name != h.Name {
				t.Fatalf("host(%d) is %s, want %s", rank, plan.host(rank).Name, h.Name)
			}
			cross[local]++
			rank++
		}
	}
	if rank != plan.Size || plan.host(rank) != nil || plan.host(-1) != nil {
		t.Fatalf("%d ranks in a plan of %d; host(%d)=%v", rank, plan.Size, rank, plan.host(rank))
	}
	for _, h := range planned {
		for local, r := range h.Ranks {
			if r.CrossSize != cross[local] {
				t.Fatalf("rank %d: cross size %d, want %d", r.Rank, r.CrossSize, cross[local])
			}
		}
	}
}

func TestPlanLeavesTheHostsAlone(t *testing.T) {
	hosts := []hostfile.Host{{Name: "a", Slots: 2}, {Name: "b", Slots: 1}}
	before := fmt.Sprint(hosts)
	first, err := NewPlan(hosts, Request{NP: 5})
	if err != nil {
		t.Fatal(err)
	}
	second, err := NewPlan(hosts, Request{NP: 5})
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(hosts) != before || fmt.Sprint(first) != fmt.Sprint(second) {
		t.Errorf("planning twice gave %v and %v, and hosts %v", first, second, hosts)
	}
}

func BenchmarkPlan(b *testing.B) {
	hosts := make([]hostfile.Host, 10_000)
	for i := range hosts {
		hosts[i] = hostfile.Host{Name: fmt.Sprintf("node%05d", i), Slots: 8}
	}
	b.ReportAllocs()
	for b.Loop() {
		plan, err := NewPlan(hosts, Request{})
		if err != nil || plan.Size != 80_000 {
			b.Fatalf("%d ranks, %v", plan.Size, err)
		}
	}
}
