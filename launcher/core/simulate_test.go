package core

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// verdict holds what the launcher says against what happened.
func (w *world) verdict() error {
	b := w.boss
	if !b.told {
		return nil
	}
	r := b.core.Result()
	allWell := true
	for _, rank := range w.ranks {
		allWell = allWell && !rank.alive && rank.code == 0 && rank.killed == 0
	}
	switch {
	case b.code != r.Code() || b.code < 0 || b.code > 255:
		return fmt.Errorf("code %d for %+v", b.code, r)
	case b.code == 0 && !allWell:
		return fmt.Errorf("code 0, and not every rank ended well: %+v", r)
	case b.code != 0 && allWell && r.Stopped == NotStopped && len(r.Lost)+len(r.Unconfirmed) == 0:
		return fmt.Errorf("code %d, and every rank ended well: %+v", b.code, r)
	case b.code != 0 && w.harmless:
		return fmt.Errorf("code %d, and nothing went wrong: %+v", b.code, r)
	case len(r.Unconfirmed) > 0 && w.now < b.due:
		return fmt.Errorf("gave up at %v, before %v", w.now, b.due)
	}
	for _, lost := range r.Lost {
		if i := slices.IndexFunc(w.hosts, func(h *simHost) bool { return h.name == lost.Host }); !w.hosts[i].suspect && !w.hosts[i].stuck {
			return fmt.Errorf("nothing was wrong with %s, and it is lost: %v", lost.Host, lost.Err)
		}
	}
	return w.blame(r)
}

// blame holds the first cause against what happened.
func (w *world) blame(r Result) error {
	var first *simRank // of those that failed by themselves, as the launcher heard
	for _, rank := range w.ranks {
		e, known := w.boss.known[rank.rank]
		if known && e.Stopped && rank.origin && !rank.termed { // a SIGKILL of another's may be reaped after the agent's own
			return fmt.Errorf("rank %d failed by itself, and counts as stopped", rank.rank)
		}
		if known && !e.Stopped && rank.origin && !rank.told && (first == nil || rank.endedAt < first.endedAt) {
			first = rank
		}
	}
	switch {
	case r.Cause == nil:
		if first != nil {
			return fmt.Errorf("rank %d failed, and there is no cause", first.rank)
		}
		return nil
	case r.Cause.Lost != nil:
		if first != nil && first.endedAt+w.boss.blur < r.Cause.At {
			return fmt.Errorf("rank %d failed at %v, and the cause is %v at %v", first.rank, first.endedAt, r.Cause, r.Cause.At)
		}
		return nil
	}
	i := slices.IndexFunc(w.ranks, func(rank *simRank) bool { return rank.rank == r.Cause.Rank })
	cause := w.ranks[i]
	want := cause.code
	if cause.killed != 0 {
		want = CodeSignalBase + int(cause.killed)
	}
	switch {
	case !r.Cause.Victim && !cause.origin:
		return fmt.Errorf("the cause is %v, which is a consequence", r.Cause)
	case r.Cause.Victim && first != nil:
		return fmt.Errorf("the cause is the victim %v, and rank %d failed by itself", r.Cause, first.rank)
	case r.Stopped == NotStopped && w.boss.code != want:
		return fmt.Errorf("code %d, and the cause ended with %d", w.boss.code, want)
	case !r.Cause.Victim && first != nil && first.endedAt+w.boss.blur < cause.endedAt:
		return fmt.Errorf("rank %d failed at %v, and the cause is %v at %v", first.rank, first.endedAt, r.Cause, cause.endedAt)
	}
	return nil
}

func playJob(seed uint64, tell bool) *world {
	w := newWorld(rand.New(rand.NewPCG(seed, 3)), tell)
	w.fault = w.run()
	return w
}

// fromEnv is what a variable of the environment says, or usually.
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

// TestWholeJobs plays made-up jobs, a seed each. make simulate plays more of them
// (N=1000000), from another first one, or one with its log (SEED=7).
func TestWholeJobs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if os.Getenv("SIMULATE_SEED") != "" {
		seed := fromEnv(t, "SIMULATE_SEED", 0)
		w := playJob(seed, true)
		t.Logf("seed %d:\n%s\ncode %d, fault: %v", seed, strings.Join(w.log, "\n"), w.boss.code, w.fault)
		if w.fault != nil {
			t.Fail()
		}
		return
	}
	seeds, from := fromEnv(t, "SIMULATE_N", simulatedJobs), fromEnv(t, "SIMULATE_FROM", 0)
	const workers = 4
	codes := map[int]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for worker := range uint64(workers) {
		wg.Go(func() {
			for seed := from + worker; seed < from+seeds && !t.Failed(); seed += workers {
				w := playJob(seed, false)
				mu.Lock()
				codes[w.boss.code]++
				mu.Unlock()
				if w.fault != nil {
					t.Errorf("%v\nSee it: make simulate SEED=%d", w.fault, seed)
				}
			}
		})
	}
	wg.Wait()
	// A simulation that never sees an end of each kind tests less than it says.
	for _, code := range []int{0, 1, CodeTimeout, CodeLaunch, 129, 130, 137, 139, 141, 143} {
		if codes[code] == 0 {
			t.Errorf("no job ended with %d: %v", code, codes)
		}
	}
	t.Logf("%d jobs, %d different codes, %d of them 0", seeds, len(codes), codes[0])
}

func TestWholeJobsOfOneSeedAreTheSame(t *testing.T) {
	for seed := range uint64(300) {
		if one, two := playJob(seed, true).log, playJob(seed, true).log; !slices.Equal(one, two) {
			for i := range one {
				if i >= len(two) || one[i] != two[i] {
					t.Fatalf("seed %d, line %d:\n%s\n%s", seed, i, one[i], two[min(i, len(two)-1)])
				}
			}
			t.Fatalf("seed %d: %d lines and %d", seed, len(one), len(two))
		}
	}
}

// FuzzWholeJobs has the fuzzer choose what happens.
func FuzzWholeJobs(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a job of many hosts, and much that goes wrong with it"))
	f.Add(slices.Repeat([]byte{0xff, 1, 0x80, 7}, 100))
	f.Fuzz(func(t *testing.T, data []byte) {
		bytes := byteDice(data)
		if err := newWorld(&bytes, false).run(); err != nil {
			again := byteDice(data)
			w := newWorld(&again, true)
			_ = w.run()
			t.Fatalf("%v\n%s", err, strings.Join(w.log, "\n"))
		}
	})
}
