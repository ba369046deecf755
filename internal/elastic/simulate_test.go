package elastic

import (
	"container/heap"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var errNoConnection = errors.New("no connection")

// checkPlan holds an epoch that begins against the promises.
func (w *world) checkPlan(plan Plan) {
	if plan.Epoch <= w.announced {
		w.broken("epoch %d after %d", plan.Epoch, w.announced)
	}
	n := len(plan.Members)
	if n < w.cfg.Min || n > w.cfg.Max || w.announced == 0 && n > w.cfg.NP {
		w.broken("epoch %d has %d ranks; at least %d, at first %d, at most %d", plan.Epoch, n, w.cfg.Min, w.cfg.NP, w.cfg.Max)
	}
	slots, hosts, before := map[Slot]bool{}, map[string]bool{}, ""
	cross, node := map[int]int{}, 0
	for i, m := range plan.Members {
		switch {
		case m.Rank != i || m.Size != n:
			w.broken("rank %d of %d at place %d of %d", m.Rank, m.Size, i, n)
		case slots[m.Slot]:
			w.broken("%v is there twice", m.Slot)
		case m.Host != before && hosts[m.Host]:
			w.broken("ranks of %s are not contiguous", m.Host)
		case m.LocalRank >= m.LocalSize || m.CrossRank >= m.CrossSize || m.LocalRank > m.Local:
			w.broken("bad numbers %+v", m)
		case m.CrossRank != cross[m.LocalRank]:
			w.broken("bad cross rank %+v", m)
		}
		if before != "" && m.Host != before {
			node++
		}
		if m.Node != node || m.Nodes != plan.Members[0].Nodes {
			w.broken("bad node %+v", m)
		}
		cross[m.LocalRank]++
		slots[m.Slot], hosts[m.Host], before = true, true, m.Host
		if p := w.find(m.Process); p != nil && p.phase != ready && p.phase != parked {
			w.broken("%+v begins epoch %d while it is %d", m.Process, plan.Epoch, p.phase)
		}
	}
	if plan.Members[0].Nodes != len(hosts) {
		w.broken("%d hosts are said to be %d", len(hosts), plan.Members[0].Nodes)
	}
	ever := len(w.joined) > 0
	if zero := plan.Members[0].Process; ever && !w.cfg.StartOver && !w.joined[zero] {
		w.broken("rank 0 of epoch %d, %v, has no state", plan.Epoch, zero)
	}
	for _, h := range w.hosts {
		if known := w.d.host(h.name); known != nil && known.lost {
			w.broken("epoch %d begins, and %s is lost and not fenced", plan.Epoch, h.name)
		}
		for _, p := range h.procs {
			if (p.phase == running || p.phase == joining) && h.reported {
				w.broken("epoch %d begins, and %v of epoch %d is still there on a lost host", plan.Epoch, p.Slot, p.epoch)
			}
			if (p.phase == running || p.phase == joining) && !h.cut {
				w.broken("epoch %d begins, and %v is at work in epoch %d", plan.Epoch, p.Slot, p.epoch)
			}
		}
	}
}

// countChanges sees to it that a host does not come and go more than 6 times an hour. In worlds where processes
// fail by themselves a host with one slot may, and where all processes are started again, whoever has slots just then comes.
func (w *world) countChanges(plan Plan) {
	for _, h := range w.hosts {
		if w.plan.has(h.name) != plan.has(h.name) {
			h.changes = append(within(h.changes, time.Hour, w.now), w.now)
		}
		if len(h.changes) > 6 && !w.crashes && !w.cfg.Together {
			w.broken("%s changes the job at %v", h.name, h.changes)
		}
	}
}

func (w *world) finish(a End) {
	w.ended, w.end, w.endAt = true, a, w.now
	for _, h := range w.hosts {
		for _, p := range h.procs {
			w.broken("the job has ended, and %v/%d is alive", p.Slot, p.Born)
		}
	}
	switch {
	case a.Code != CodeNoRank && !w.codes[a.Code]:
		w.broken("code %d, with which nothing ended", a.Code)
	case a.Code == 0 && w.now < w.workEnd:
		w.broken("code 0 before the work was done")
	case a.Code != 0 && a.Cause == "":
		w.broken("code %d without a cause", a.Code)
	}
}

func (w *world) run() error {
	for !w.ended && w.fault == nil {
		next := heap.Pop(&w.todo).(timed)
		w.now = next.at
		next.what()
		for _, h := range w.hosts {
			for _, p := range h.procs {
				if w.d.wasWhole() && p.phase == running && w.d.inForce.Epoch == p.epoch {
					p.state, w.joined[p.Process] = true, true
				}
			}
		}
		if w.now > w.workEnd+3*time.Hour {
			w.broken("the job never ends")
		}
	}
	return w.fault
}

func fromEnv(t *testing.T, name string, usually uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return usually
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestWholeElasticJobs plays made-up jobs, a seed each. SIMULATE_N=5000 plays more of them, SIMULATE_FROM from another
// first one, SIMULATE_SEED one with its log.
func TestWholeElasticJobs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if os.Getenv("SIMULATE_SEED") != "" {
		seed := fromEnv(t, "SIMULATE_SEED", 0)
		w := newWorld(seed, true)
		err := w.run()
		t.Logf("seed %d, %+v:\n%s\n%+v, fault: %v", seed, w.cfg, strings.Join(w.log, "\n"), w.end, err)
		if err != nil {
			t.Fail()
		}
		return
	}
	seeds, from := fromEnv(t, "SIMULATE_N", 120), fromEnv(t, "SIMULATE_FROM", 0)
	const workers = 2
	codes, epochs, causes := map[int]int{}, 0, map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for worker := range uint64(workers) {
		wg.Go(func() {
			for seed := from + worker; seed < from+seeds && !t.Failed(); seed += workers {
				w := newWorld(seed, false)
				err := w.run()
				mu.Lock()
				codes[w.end.Code]++
				cause, _, _ := strings.Cut(w.end.Cause, ",")
				causes[strings.Map(withoutDigits, cause)]++
				epochs += w.announced
				mu.Unlock()
				if err != nil {
					t.Errorf("seed %d: %v\nSee it: SIMULATE_SEED=%d go test -run TestWholeElasticJobs -v ./internal/elastic", seed, err, seed)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d jobs, %d epochs, codes %v, causes %v", seeds, epochs, codes, causes)
	// A simulation that never sees an end of each kind tests less than it says.
	for _, code := range []int{0, 3, CodeNoRank, 130, 137} {
		if codes[code] == 0 && seeds >= 120 {
			t.Errorf("no job ended with %d: %v", code, codes)
		}
	}
}

func withoutDigits(r rune) rune {
	if '0' <= r && r <= '9' {
		return -1
	}
	return r
}

func TestElasticJobsOfOneSeedAreTheSame(t *testing.T) {
	for seed := range uint64(10) {
		one, two := newWorld(seed, true), newWorld(seed, true)
		if _, _ = one.run(), two.run(); !slices.Equal(one.log, two.log) {
			t.Fatalf("seed %d: two runs differ", seed)
		}
	}
}
