package ring_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// The tests of this file's family go by the names of the fault matrix, R1 to R24: each
// does one kind of harm to a job, on every layout.

// ground is a way in which the ranks of a job under test lie.
type ground struct {
	name      string
	transport string
	hosts     []int // ranks of each host; one host for nil
	size      int
	streams   int
	more      []string // of the environment
}

func grounds() []ground {
	return []ground{
		{name: "tcp", transport: "tcp", size: 4, streams: 1},
		{name: "shm", transport: "shm", size: 4, streams: 1},
		{name: "stacked-2+2", transport: "auto", hosts: []int{2, 2}, size: 4, streams: 1},
		{name: "stacked-3+1", transport: "auto", hosts: []int{3, 1}, size: 4, streams: 1},
		{name: "two-streams", transport: "tcp", size: 3, streams: 2},
		{name: "encrypted", transport: "auto", hosts: []int{2, 1}, size: 3, streams: 2, more: []string{"GORUN_ENCRYPT=1"}},
	}
}

// of is the ground with another number of ranks; those of a stacked one go two by two.
func (g ground) of(size int) ground {
	g.size = size
	if g.hosts != nil {
		g.hosts = nil
		for left := size; left > 0; left -= 2 {
			g.hosts = append(g.hosts, min(2, left))
		}
	}
	return g
}

func (g ground) door(tb testing.TB) *ringtest.Door {
	d := ringtest.NewDoor(tb, g.size)
	d.Transport, d.Hosts = g.transport, g.hosts
	return d
}

// environ is the environment of a rank, as NAME=value.
func (g ground) environ(d *ringtest.Door, rank int) []string {
	return append(append(d.Environ(rank), "RING_STREAMS="+strconv.Itoa(g.streams)), g.more...)
}

// enter makes one rank of d a goroutine of this process.
func (g ground) enter(ctx context.Context, d *ringtest.Door, rank int) (*ring.Comm, error) {
	return ring.Init(ctx, ring.WithEnviron(ringtest.Lookup(g.environ(d, rank))))
}

// join makes all ranks of d goroutines of this process, but for those that are not, or
// not yet, here.
func (g ground) join(tb testing.TB, d *ringtest.Door, absent ...int) []*ring.Comm {
	tb.Helper()
	comms := make([]*ring.Comm, g.size)
	err := ringtest.Each(g.size, func(rank int) error {
		for _, a := range absent {
			if a == rank {
				return nil
			}
		}
		c, err := g.enter(ctx, d, rank)
		comms[rank] = c
		return err
	})
	tb.Cleanup(func() { closeAll(comms) })
	if err != nil {
		tb.Fatalf("join: %v", err)
	}
	return comms
}

func closeAll(comms []*ring.Comm) {
	for _, c := range comms {
		if c != nil {
			c.Close()
		}
	}
}

// onGrounds runs test on every ground.
func onGrounds(t *testing.T, test func(t *testing.T, g ground)) {
	for _, g := range grounds() {
		t.Run(g.name, func(t *testing.T) { test(t, g) })
	}
}

// rounds is how often a test does its random harm: as often as usual, or as many times
// that as RING_FAULT_ROUNDS says, for a long run.
func rounds(usual int) int {
	if n, err := strconv.Atoi(os.Getenv("RING_FAULT_ROUNDS")); err == nil {
		return n * usual
	}
	return usual
}

// sampled reports whether to take case i of many: one of three where the race detector
// makes all of them slow.
func sampled(i int) bool { return !raceEnabled || i%3 == 0 || rounds(1) > 1 }

// seat is one rank's place in a call of parts of n elements.
type seat struct{ rank, size, root, n int }

// form is a call of one kind as plain data: what each rank brings, and what it must get.
type form struct {
	name    string
	kind    ring.Kind
	op      ring.Op
	unlike  bool
	in, out func(s seat) int            // elements of src and dst
	give    func(s seat, i int) float32 // element i of src
	want    func(s seat, i int) float32 // element i of dst afterwards
}

// forms are calls of every kind.
func forms() []form {
	mine := func(s seat, i int) float32 { return at(s.rank, i) }
	part := func(s seat) int { return s.n }
	all := func(s seat) int { return s.n * s.size }
	sum := func(s seat, i int) float32 { return float32(s.size * (s.size + 1) / 2 * (i%1009 + 1)) }
	ofEach := func(s seat, i int) float32 { return at(i/s.n, i%s.n) }
	atRoot := func(n func(seat) int) func(seat) int {
		return func(s seat) int {
			if s.rank != s.root {
				return 0
			}
			return n(s)
		}
	}
	ragged := func(s seat) int { return s.length(s.rank) }
	raggedAll := func(s seat) int { return s.begin(s.size) }
	return []form{
		{name: "barrier", kind: ring.KindBarrier, in: none, out: none},
		{name: "broadcast", kind: ring.KindBroadcast, in: none, out: part, want: func(s seat, i int) float32 { return at(s.root, i) }},
		{name: "allreduce", kind: ring.KindAllReduce, op: ring.Sum, in: part, out: part, give: mine, want: sum},
		{name: "reduce", kind: ring.KindReduce, op: ring.Sum, in: part, out: atRoot(part), give: mine, want: sum},
		{name: "allgather", kind: ring.KindAllGather, in: part, out: all, give: mine, want: ofEach},
		{name: "gather", kind: ring.KindGather, in: part, out: atRoot(all), give: mine, want: ofEach},
		{name: "scatter", kind: ring.KindScatter, in: atRoot(all), out: part, give: mine,
			want: func(s seat, i int) float32 { return at(s.root, s.rank*s.n+i) }},
		{name: "reduce-scatter", kind: ring.KindReduceScatter, op: ring.Sum, in: all, out: part, give: mine,
			want: func(s seat, i int) float32 { return sum(s, s.rank*s.n+i) }},
		{name: "alltoall", kind: ring.KindAllToAll, in: all, out: all, give: mine,
			want: func(s seat, i int) float32 { return at(i/s.n, s.rank*s.n+i%s.n) }},
		{name: "message", kind: ring.KindMessage, in: part, out: part, give: mine,
			want: func(s seat, i int) float32 { return at((s.rank-1+s.size)%s.size, i) }},
		{name: "allgather of unlike parts", kind: ring.KindAllGather, unlike: true, in: ragged, out: raggedAll, give: mine,
			want: func(s seat, i int) float32 { from := s.owner(i); return at(from, i-s.begin(from)) }},
		{name: "reduce-scatter of unlike parts", kind: ring.KindReduceScatter, op: ring.Sum, unlike: true, in: raggedAll, out: ragged, give: mine,
			want: func(s seat, i int) float32 { return sum(s, s.begin(s.rank)+i) }},
	}
}

func none(seat) int { return 0 }

// length is how long rank's part is where parts are unlike.
func (s seat) length(rank int) int { return s.n * (rank % 3) }

func (s seat) begin(rank int) int {
	at := 0
	for q := range rank {
		at += s.length(q)
	}
	return at
}

// owner is the rank whose part element i is in.
func (s seat) owner(i int) int {
	rank := 0
	for i >= s.begin(rank+1) {
		rank++
	}
	return rank
}

// at returns s with the rank and size of c.
func (s seat) at(c *ring.Comm) seat {
	s.rank, s.size = c.Rank(), c.Size()
	return s
}

// fill makes the call of the rank at s, with src and dst in room for their elements.
func (f form) fill(s seat, room func(elements int) []float32) ring.Collective {
	src, dst := room(f.in(s)), room(f.out(s))
	for i := range src {
		src[i] = f.give(s, i)
	}
	for i := range dst {
		dst[i] = -1
		if f.kind == ring.KindBroadcast {
			dst[i] = at(s.rank, i)
		}
	}
	w := ring.Collective{Kind: f.kind, Type: ring.Float32, Op: f.op, Root: s.root, Dst: ring.BufferOf(dst), Src: ring.BufferOf(src)}
	switch {
	case f.kind == ring.KindBarrier:
		w = ring.Collective{Kind: f.kind}
	case f.kind == ring.KindMessage:
		w.To, w.From = (s.rank+1)%s.size, (s.rank-1+s.size)%s.size
	case f.unlike:
		for rank := range s.size {
			w.Counts = append(w.Counts, s.length(rank))
		}
	}
	return w
}

// check looks at what a call that has succeeded left behind.
func (f form) check(s seat, w ring.Collective) error {
	for i, v := range elements(w.Dst) {
		if want := f.want(s, i); v != want {
			return fmt.Errorf("%s: element %d of %d is %v, want %v", f.name, i, w.Dst.Len, v, want)
		}
	}
	for i, v := range elements(w.Src) {
		if want := f.give(s, i); v != want {
			return fmt.Errorf("%s: element %d of src is %v after the call, was %v", f.name, i, v, want)
		}
	}
	return nil
}

// heap is room in the ordinary memory of the program.
func heap(elements int) []float32 { return make([]float32, elements) }

// way is how a rank makes a call.
type way func(ctx context.Context, c *ring.Comm, w ring.Collective) error

func plainly(ctx context.Context, c *ring.Comm, w ring.Collective) error { return c.Do(ctx, w) }

// started starts the call, and waits for it.
func started(ctx context.Context, c *ring.Comm, w ring.Collective) error {
	h, err := c.Start(w)
	if err != nil {
		return err
	}
	return h.Wait(ctx)
}

// once makes one call and checks it.
func (f form) once(c *ring.Comm, s seat, do way) error {
	s = s.at(c)
	w := f.fill(s, heap)
	if err := do(ctx, c, w); err != nil {
		return err
	}
	return f.check(s, w)
}

// formOf is the form with that name.
func formOf(name string) (form, error) {
	for _, f := range forms() {
		if f.name == name {
			return f, nil
		}
	}
	return form{}, errors.New("no form " + strconv.Quote(name))
}

// differ checks that err tells of calls that differ, with all of words.
func differ(err error, words ...string) error {
	mismatch, peer := new(ring.MismatchError), new(ring.PeerError)
	if !errors.As(err, &mismatch) && !errors.As(err, &peer) {
		return fmt.Errorf("error is %v, want a MismatchError or a PeerError", err)
	}
	for _, word := range append(words, "calls differ") {
		if !strings.Contains(err.Error(), word) {
			return fmt.Errorf("error %q does not say %q", err, word)
		}
	}
	return nil
}
