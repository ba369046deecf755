package negotiate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// simulation is a job in which every rank submits the same tensors in every step of the job,
// in its own order and at its own times. A rank submits a tensor for the next step once the
// last operation on it is done, regardless of other tensors.
type simulation struct {
	*world
	random *rand.Rand
	steps  int
	plan   [][]Request // by tensor and rank: counts of allgathers differ
	index  map[string]int

	used  [][]int // by rank and tensor: how often it was submitted
	done  []int   // by tensor: how often it came back
	wrong []int   // by tensor: the step in which some rank says something else, at first -1

	until  []int  // by rank: how many steps it has data for, before it joins
	joined []bool // by rank
	last   int    // of those that joined

	submitted, ran, failed, rests, stalls, needed int
}

func newSimulation(t *testing.T, seed uint64, size, tensors, steps int, c Config) *simulation {
	s := &simulation{
		world:  newWorld(t, size, c),
		random: rand.New(rand.NewPCG(seed, 1)),
		steps:  steps,
		index:  map[string]int{},
		used:   make([][]int, size),
		done:   make([]int, tensors),
		wrong:  make([]int, tensors),
		until:  make([]int, size),
		joined: make([]bool, size),
	}
	for rank := range size {
		s.until[rank] = steps
	}
	kinds := []collective.Kind{collective.Barrier, collective.Broadcast, collective.AllGather, collective.AllReduce,
		collective.ReduceScatter, collective.AllToAll}
	for i := range tensors {
		r := Request{Name: fmt.Sprintf("tensor %d", i), Kind: kinds[i%len(kinds)]}
		if r.Kind != collective.Barrier {
			r.Type = kernel.F32 + kernel.Type(i)%3
			r.Count = uint64(s.random.IntN(2000))
		}
		if r.Kind.Reduces() || i%7 < 4 {
			r.Kind = collective.AllReduce
			r.Op = 1 + kernel.Op(i%2)
			r.Type = max(r.Type, kernel.F32)
		}
		if r.Kind == collective.Broadcast {
			r.Root = int32(i % size)
		}
		byRank := make([]Request, size)
		for rank := range byRank {
			byRank[rank] = r
			if varies(r.Kind) {
				byRank[rank].Count += uint64(rank)
			}
		}
		s.plan = append(s.plan, byRank)
		s.index[r.Name] = i
		s.wrong[i] = -1
	}
	s.skew = time.Minute
	for rank := range size {
		s.used[rank] = make([]int, tensors)
	}
	return s
}

// submitSome has a rank submit some of its possible tensors, now and then with a mismatch.
func (s *simulation) submitSome(rank int) {
	n := s.random.IntN(len(s.plan) + 1)
	for _, i := range s.random.Perm(len(s.plan))[:n] {
		step := s.used[rank][i]
		if step == s.until[rank] || step > s.done[i] {
			continue // all done, or in flight
		}
		r := s.plan[i][rank]
		if s.wrong[i] < step && len(s.ranks)-len(s.without(step)) > 1 && r.Kind != collective.Barrier &&
			s.random.IntN(100) == 0 {
			s.wrong[i] = step // only this rank
			r.Shape = "wrong"
		}
		s.submit(rank, r)
		s.used[rank][i]++
		s.submitted++
	}
}

// without returns the ranks that have no data for a step.
func (s *simulation) without(step int) []int {
	var ranks []int
	for rank, until := range s.until {
		if until <= step {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// join has a rank join if it has submitted all its data.
func (s *simulation) join(rank int) {
	if s.joined[rank] || slices.Min(s.used[rank]) < s.until[rank] {
		return
	}
	s.ranks[rank].Join()
	s.joined[rank] = true
	s.last = rank
}

// epoch gives each rank data for a random number of steps, and runs until all have joined.
func (s *simulation) epoch() {
	for rank := range s.ranks {
		s.until[rank] = s.random.IntN(s.steps + 1)
		clear(s.used[rank])
		s.joined[rank] = false
	}
	for i := range s.plan {
		s.done[i] = 0
		s.wrong[i] = -1
	}
	for cycles := 0; ; cycles++ {
		if cycles > 1000*s.steps {
			s.t.Fatalf("no end in sight: %d tensors wait", len(s.ranks[0].waiting))
		}
		out := s.turn(true)
		if !out.Joined {
			continue
		}
		if want := slices.Max(s.until); out.Last != s.last || slices.Min(s.done) < want ||
			slices.Contains(s.joined, false) {
			s.t.Fatalf("rank %d joined last, of %v, and %v tensors are done; want rank %d, and %d of each", out.Last,
				s.joined, s.done, s.last, want)
		}
		return
	}
}

// back records that a tensor is complete. All ranks with data for it must have submitted it.
func (s *simulation) back(name string, failed bool) {
	i := s.index[name]
	must.That(s.t, (s.wrong[i] == s.done[i]) == failed, "step %d: %s failed: %v", s.done[i], name, failed)
	s.done[i]++
	for rank := range s.ranks {
		if s.used[rank][i] != min(s.done[i], s.until[rank]) {
			s.t.Fatalf("%s came back for the %d. time, and rank %d has submitted it %d times", name, s.done[i], rank,
				s.used[rank][i])
		}
	}
}

func (s *simulation) run() {
	for cycles := 0; slices.Min(s.done) < s.steps; cycles++ {
		if cycles > 1000*s.steps {
			s.t.Fatalf("no end in sight: %d tensors wait", len(s.ranks[0].waiting))
		}
		s.turn(false)
	}
}

// turn has ranks submit, and runs a cycle.
func (s *simulation) turn(joins bool) Outcome {
	for rank := range s.ranks {
		if s.random.IntN(3) > 0 {
			s.submitSome(rank)
			if joins {
				s.join(rank)
			}
		}
		if s.random.IntN(10) == 0 { // listing stalls changes no state
			stalls, more := s.ranks[rank].Stalled(s.now)
			s.stalls += len(stalls) + more
		}
	}
	s.now = s.now.Add(time.Duration(s.random.IntN(1000)) * time.Millisecond)
	out := s.cycle()
	if s.bytes > room {
		s.rests++
	}
	s.check(out)
	return out
}

func (s *simulation) check(out Outcome) {
	var items []Item
	for _, b := range out.Batches {
		items = append(items, b.Items...)
		s.ran += len(b.Items)
	}
	checkBatches(s.t, out.Batches, items, s.ranks[0].config.Fusion)
	for _, item := range items {
		if want := s.without(s.done[s.index[item.Name]]); item.Joined != len(want) || len(want) > 0 &&
			!item.joinable() {
			s.t.Fatalf("%v runs without %d ranks, want %v", item.Request, item.Joined, want)
		}
		s.back(item.Name, false)
	}
	for _, f := range out.Failures {
		s.failed++
		mismatch := new(MismatchError)
		joined := new(JoinedError)
		if errors.As(f.Err, &joined) {
			if want := s.without(s.done[s.index[f.Name]]); joined.Joined != len(want) || joined.joinable() ||
				!slices.Equal(joined.First, want[:min(len(want), namedRanks)]) {
				s.t.Fatalf("%v; it is without %v", f.Err, want)
			}
			s.needed++
			s.back(f.Name, false)
			continue
		}
		if !errors.As(f.Err, &mismatch) || (mismatch.Said[0].Shape == "wrong") == (mismatch.Said[1].Shape == "wrong") {
			s.t.Fatalf("%s: %v", f.Name, f.Err)
		}
		s.back(f.Name, true)
	}
}

func TestSimulation(t *testing.T) {
	tests := []struct {
		size, tensors, steps int
		config               Config
	}{
		{1, 30, 20, defaults()},
		{2, 100, 20, defaults()},
		{5, 60, 30, Config{Cache: 1024, Fusion: 4 << 10, StallAfter: time.Second}},
		{4, 60, 30, Config{Cache: 7, Fusion: 4 << 10}}, // ids change owners all the time
		{3, 60, 30, Config{Cache: 1, Fusion: 0}},
		{3, 60, 30, Config{Cache: 0, Fusion: 1 << 20}},
		{70, 20, 6, Config{Cache: 16, Fusion: 1 << 20}},
	}
	events := 0
	failed := 0
	rests := 0
	stalls := 0
	for i, tt := range tests {
		s := newSimulation(t, uint64(i), tt.size, tt.tensors, tt.steps, tt.config)
		s.run()
		if want := tt.tensors * tt.steps; s.ran+s.failed != want || s.submitted != want*tt.size {
			t.Errorf("%+v: %d tensors ran, %d failed, %d were submitted; want %d on each rank", tt, s.ran, s.failed,
				s.submitted, want)
		}
		for rank, n := range s.ranks {
			check.That(t, len(n.waiting) == 0 && s.boxes[rank].InFlight() == 0 && len(s.boxes[rank].List()) == 0,
				"%+v: rank %d has something left", tt, rank)
			check.That(t, len(n.names) <= tt.config.Cache && len(n.cache.slots) == len(n.names),
				"%+v: rank %d keeps %d names and %d ids", tt, rank, len(n.names), len(n.cache.slots))
		}
		events += s.submitted
		failed = failed + s.failed
		rests = rests + s.rests
		stalls = stalls + s.stalls
	}
	t.Logf("%d submissions, %d mismatches, %d cycles with more than a frame, %d stalls", events, failed, rests, stalls)
	check.That(t, events >= 30_000 && failed >= 100 && rests >= 100 && stalls >= 10, "that is too little of something")
}

// Ranks run out of data at different times, again and again.
func TestSimulationOfJoins(t *testing.T) {
	const epochs = 8
	ran := 0
	failed := 0
	needed := 0
	rests := 0
	for size := 1; size <= 8; size++ {
		for i, c := range []Config{defaults(), {Cache: 7, Fusion: 4 << 10, StallAfter: time.Second},
			{Cache: 0, Fusion: 0}} {
			s := newSimulation(t, uint64(100*size+i), size, 40, 6, c)
			for range epochs {
				s.epoch()
			}
			for rank, n := range s.ranks {
				check.That(t, len(n.waiting) == 0 && s.boxes[rank].InFlight() == 0 && len(n.NotJoined()) == size,
					"%d ranks, %+v: rank %d has something left", size, c, rank)
				check.That(t, len(n.names) <= c.Cache && len(n.cache.slots) == len(n.names),
					"%d ranks, %+v: rank %d keeps %d names and %d ids", size, c, rank, len(n.names), len(n.cache.slots))
			}
			ran = ran + s.ran
			failed = failed + s.failed
			needed = needed + s.needed
			rests = rests + s.rests
		}
	}
	t.Logf("%d tensors ran, %d failed, %d of them for ranks that had joined, %d cycles with more than a frame", ran,
		failed, needed, rests)
	check.That(t, ran >= 20_000 && failed-needed >= 100 && needed >= 1000 && rests >= 100,
		"that is too little of something")
}

// The cache evicts the least recently used name, and stays consistent.
func TestCacheForgets(t *testing.T) {
	w := newWorld(t, 2, Config{Cache: 3})
	use := func(names ...string) {
		for _, name := range names {
			for rank := range w.ranks {
				w.submit(rank, sumOf(name, 1))
			}
			w.cycle()
		}
	}
	use("a", "b", "c", "a", "d", "c", "e")
	got := map[string]int{}
	n := w.ranks[0]
	for id, e := range n.cache.slots {
		check.That(t, e.id == id && n.names[e.name] == e, "%s has id %d in slot %d", e.name, e.id, id)
		got[e.name] = id
	}
	if want := map[string]int{"e": 0, "d": 1, "c": 2}; !reflect.DeepEqual(got, want) {
		t.Errorf("ids %v, want %v", got, want)
	}
	var order, back []string
	for e := n.cache.newest; e != nil; e = e.older {
		order = append(order, e.name)
	}
	for e := n.cache.oldest; e != nil; e = e.newer {
		back = append(back, e.name)
	}
	check.That(t, reflect.DeepEqual(order, []string{"e", "c", "d"}) && reflect.DeepEqual(back, []string{"d", "c", "e"}),
		"from the newest: %v; from the oldest: %v", order, back)

	// An id that is taken away does not take a request with it.
	w.submit(0, sumOf("d", 1))
	w.cycle()
	use("f", "g", "h")
	w.submit(1, sumOf("d", 1))
	check.Equal(t, names(w.cycle()), "d ", "ready")
}
