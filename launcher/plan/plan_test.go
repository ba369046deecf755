package plan

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
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata; commit them only when the change is "+
	"understood")

// TestPlanTranscripts compares plans with testdata/plans. A case is a request
// and a hostfile, a line of dashes, and what becomes of them; cases are separated by
// empty lines.
func TestPlanTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/plans/*.txt")
	must.That(t, err == nil && len(files) != 0, "no transcripts: %v", err)
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			old, err := os.ReadFile(name)
			must.OK(t, err)
			var cases []string
			for c := range strings.SplitSeq(strings.TrimSpace(string(old)), "\n\n") {
				input, _, _ := strings.Cut(c, "\n----")
				cases = append(cases, input+"\n----\n"+transcribe(t, input))
			}
			got := strings.Join(cases, "\n")
			switch {
			case *update:
				err = os.WriteFile(name, []byte(got), 0o644)
				must.OK(t, err)
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
			} else if kind, order, is := strings.Cut(w, "-by="); is {
				by := map[string]Order{"slot": BySlot, "node": ByNode}[order]
				if kind == "map" {
					req.MapBy = by
				} else {
					req.RankBy = by
				}
			} else if n, err := strconv.Atoi(strings.TrimPrefix(w, "np=")); err == nil {
				req.NP = n
			} else {
				t.Fatalf("%q is no part of a request", w)
			}
		}
	}
	list := must.Get(hostfile.Parse("hosts", strings.NewReader(hosts.String())))(t)
	parsed := must.Get(list.Hosts())(t)
	plan, err := New(parsed, req)
	var b strings.Builder
	var few *SlotsError
	if errors.As(err, &few) {
		fmt.Fprintf(&b, "error: %v\nhint: %s\n", err, few.Hint())
		return b.String()
	}
	must.OK(t, err)
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
		plan, err := New(hosts, req)
		must.That(t, (err == nil) == allowed, "%+v on %+v: %v, want it allowed: %v", req, hosts, err, allowed)
		if err != nil {
			var few *SlotsError
			must.That(t, errors.As(err, &few) && few.Hint() != "", "%+v on %+v: %#v", req, hosts, err)
			continue
		}
		checkPlan(t, plan, hosts, shares, numberSlowly(shares, req))
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
	return hosts, Request{
		NP:              rnd.IntN(60),
		NoOversubscribe: rnd.IntN(3) == 0,
		MapBy:           Order(rnd.IntN(3)),
		RankBy:          Order(rnd.IntN(3)),
	}
}

// dealSlowly is the rule in other words: there is a list of slots, all of a host before those of
// the next, or one of each host in turn, and ranks take them one by one, again and again.
func dealSlowly(hosts []hostfile.Host, req Request) (shares []int, allowed bool) {
	shares = make([]int, len(hosts))
	var list []int // the host of each slot
	for i, h := range hosts {
		for range h.Slots {
			list = append(list, i)
		}
	}
	if req.MapBy == ByNode {
		turns := make([]int, len(hosts))
		turn := map[int][]int{}
		last := 0
		for _, i := range list {
			turn[turns[i]] = append(turn[turns[i]], i)
			turns[i]++
			last = max(last, turns[i])
		}
		list = nil
		for n := range last {
			list = append(list, turn[n]...)
		}
	}
	left := req.NP
	if left == 0 {
		left = len(list)
	}
	allowed = left <= len(list) || !req.NoOversubscribe
	for left > 0 {
		before := left
		for _, i := range list {
			if h := hosts[i]; left > 0 && (h.MaxSlots == 0 || shares[i] < h.MaxSlots) {
				shares[i]++
				left--
			}
		}
		if left == before {
			return shares, false
		}
	}
	return shares, allowed
}

// numberSlowly is the host of every rank.
func numberSlowly(shares []int, req Request) (hosts []int) {
	left := append([]int(nil), shares...)
	size := 0
	for _, n := range shares {
		size += n
	}
	for len(hosts) < size {
		for i := range left {
			for left[i] > 0 {
				hosts = append(hosts, i)
				left[i]--
				if req.RankBy == ByNode || req.RankBy == 0 && req.MapBy == ByNode {
					break
				}
			}
		}
	}
	return hosts
}

func checkPlan(t *testing.T, plan Plan, hosts []hostfile.Host, shares, of []int) {
	t.Helper()
	next := plan.Hosts
	crossSize := map[int]int{} // by local rank: how many hosts have it
	for _, n := range shares {
		for local := range n {
			crossSize[local]++
		}
	}
	cross := map[int]int{}
	seen := 0
	for i, h := range hosts {
		if shares[i] == 0 {
			continue
		}
		p := next[0]
		next = next[1:]
		must.That(t, p.Host == h && len(p.Ranks) == shares[i],
			"host %d is %+v with %d ranks, want %+v with %d", i, p.Host, len(p.Ranks), h, shares[i])
		for local, r := range p.Ranks {
			want := Rank{
				Rank:      r.Rank,
				LocalRank: local,
				CrossRank: cross[local],
				CrossSize: crossSize[local],
			}
			if r != want || of[r.Rank] != i || local > 0 && r.Rank <= p.Ranks[local-1].Rank {
				t.Fatalf("got %+v on host %d, want %+v on host %d, in order", r, i, want, of[r.Rank])
			}
			must.That(t, plan.Host(r.Rank).Name == h.Name,
				"host(%d) is %s, want %s", r.Rank, plan.Host(r.Rank).Name, h.Name)
			cross[local]++
			seen++
		}
	}
	must.That(t, len(next) == 0, "hosts that nobody named: %+v", next)
	must.That(t, seen == plan.Size && seen == len(of) && plan.Host(seen) == nil && plan.Host(-1) == nil,
		"%d ranks in a plan of %d", seen, plan.Size)
}

func TestPlanRefusesNonsense(t *testing.T) {
	defer func() {
		r := recover()
		check.That(t, r == nil, "%v", r)
	}()
	plan, err := New(nil, Request{})
	check.That(t, err != nil, "no hosts: %+v", plan)
	plan, err = New([]hostfile.Host{{Name: "a", Slots: 1}}, Request{NP: -1})
	check.That(t, err != nil, "-1 ranks: %+v", plan)
}

// The hint must be one that works, and the error must be about the request.
func TestMaxSlotsHintIsTrue(t *testing.T) {
	hosts := []hostfile.Host{{Name: "a", Slots: 2, MaxSlots: 3}, {Name: "b", Slots: 2, MaxSlots: 2}}
	_, err := New(hosts, Request{NP: 8})
	var few *SlotsError
	must.That(t, errors.As(err, &few), "%v", err)
	check.That(t, few.NP == 8 && strings.Contains(few.Hint(), "at most -np 5,"),
		"%v; %s; but 5 ranks have room", err, few.Hint())
	_, err = New(hosts, Request{NP: 5})
	check.OK(t, err, "5 ranks")
}

func TestCheckGPUs(t *testing.T) {
	plan := must.Get(New([]hostfile.Host{{Name: "f1", Slots: 4}, {Name: "f2", Slots: 4, GPUs: 4}}, Request{}))(t)
	for per, want := range map[int]string{
		0: "", 1: "",
		2: "f2: 4 ranks with --gpus-per-rank 2, and the hostfile says gpus=4|give it slots=2, or each rank fewer GPUs",
		5: "f2: 4 ranks with --gpus-per-rank 5, and the hostfile says gpus=4|give each rank 4 GPUs at most, or " +
			"correct gpus= in the hostfile",
	} {
		got := ""
		var few *GPUsError
		if err := plan.CheckGPUs(per); errors.As(err, &few) {
			got = few.Error() + "|" + few.Hint()
		}
		check.Equal(t, got, want, per, "for each")
	}
}
