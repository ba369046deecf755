package ring_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gorun/gorun/ring"
)

// The tests of this file's family go by the names of the fault matrix, R1 to R24: each
// does one kind of harm to a job, on every layout.

// rounds returns the number of random faults of a test: usual, times RING_FAULT_ROUNDS if set.
func rounds(usual int) int {
	if n, err := strconv.Atoi(os.Getenv("RING_FAULT_ROUNDS")); err == nil {
		return n * usual
	}
	return usual
}

// sampled reports whether to take case i of many: one of three where the race detector
// makes all of them slow.
func sampled(i int) bool { return !raceEnabled || i%3 == 0 || rounds(1) > 1 }

// position is where one rank stands in a call of parts of n elements.
type position struct{ rank, size, root, n int }

// spec is a call of one kind as plain data: what each rank brings, and what it must get.
type spec struct {
	name    string
	kind    ring.Kind
	op      ring.Op
	unlike  bool
	in, out func(s position) int            // elements of src and dst
	give    func(s position, i int) float32 // element i of src
	want    func(s position, i int) float32 // element i of dst afterwards
}

// specs returns a call of every kind.
func specs() []spec {
	mine := func(s position, i int) float32 { return at(s.rank, i) }
	part := func(s position) int { return s.n }
	all := func(s position) int { return s.n * s.size }
	sum := func(s position, i int) float32 { return float32(s.size * (s.size + 1) / 2 * (i%1009 + 1)) }
	ofEach := func(s position, i int) float32 { return at(i/s.n, i%s.n) }
	atRoot := func(n func(position) int) func(position) int {
		return func(s position) int {
			if s.rank != s.root {
				return 0
			}
			return n(s)
		}
	}
	ragged := func(s position) int { return s.length(s.rank) }
	raggedAll := func(s position) int { return s.begin(s.size) }
	return []spec{
		{name: "barrier", kind: ring.KindBarrier, in: none, out: none},
		{name: "broadcast", kind: ring.KindBroadcast, in: none, out: part, want: func(s position, i int) float32 {
			return at(s.root, i)
		}},
		{name: "allreduce", kind: ring.KindAllReduce, op: ring.Sum, in: part, out: part, give: mine, want: sum},
		{name: "reduce", kind: ring.KindReduce, op: ring.Sum, in: part, out: atRoot(part), give: mine, want: sum},
		{name: "allgather", kind: ring.KindAllGather, in: part, out: all, give: mine, want: ofEach},
		{name: "gather", kind: ring.KindGather, in: part, out: atRoot(all), give: mine, want: ofEach},
		{name: "scatter", kind: ring.KindScatter, in: atRoot(all), out: part, give: mine,
			want: func(s position, i int) float32 { return at(s.root, s.rank*s.n+i) }},
		{name: "reduce-scatter", kind: ring.KindReduceScatter, op: ring.Sum, in: all, out: part, give: mine,
			want: func(s position, i int) float32 { return sum(s, s.rank*s.n+i) }},
		{name: "alltoall", kind: ring.KindAllToAll, in: all, out: all, give: mine,
			want: func(s position, i int) float32 { return at(i/s.n, s.rank*s.n+i%s.n) }},
		{name: "message", kind: ring.KindMessage, in: part, out: part, give: mine,
			want: func(s position, i int) float32 { return at((s.rank-1+s.size)%s.size, i) }},
		{name: "allgather of unlike parts", kind: ring.KindAllGather, unlike: true, in: ragged, out: raggedAll,
			give: mine,
			want: func(s position, i int) float32 { from := s.owner(i); return at(from, i-s.begin(from)) }},
		{name: "reduce-scatter of unlike parts", kind: ring.KindReduceScatter, op: ring.Sum, unlike: true,
			in: raggedAll, out: ragged, give: mine,
			want: func(s position, i int) float32 { return sum(s, s.begin(s.rank)+i) }},
	}
}

func none(position) int { return 0 }

// length is how long rank's part is where parts are unlike.
func (s position) length(rank int) int { return s.n * (rank % 3) }

func (s position) begin(rank int) int {
	at := 0
	for q := range rank {
		at += s.length(q)
	}
	return at
}

// owner is the rank whose part element i is in.
func (s position) owner(i int) int {
	rank := 0
	for i >= s.begin(rank+1) {
		rank++
	}
	return rank
}

// at returns s with the rank and size of c.
func (s position) at(c *ring.Comm) position {
	s.rank = c.Rank()
	s.size = c.Size()
	return s
}

// fill makes the call of the rank at s, with src and dst in room for their elements.
func (f spec) fill(s position, room func(elements int) []float32) ring.Collective {
	src := room(f.in(s))
	dst := room(f.out(s))
	for i := range src {
		src[i] = f.give(s, i)
	}
	for i := range dst {
		dst[i] = -1
		if f.kind == ring.KindBroadcast {
			dst[i] = at(s.rank, i)
		}
	}
	w := ring.Collective{
		Kind: f.kind,
		Type: ring.Float32,
		Op:   f.op,
		Root: s.root,
		Dst:  ring.BufferOf(dst),
		Src:  ring.BufferOf(src),
	}
	switch {
	case f.kind == ring.KindBarrier:
		w = ring.Collective{Kind: f.kind}
	case f.kind == ring.KindMessage:
		w.To = (s.rank + 1) % s.size
		w.From = (s.rank - 1 + s.size) % s.size
	case f.unlike:
		for rank := range s.size {
			w.Counts = append(w.Counts, s.length(rank))
		}
	}
	return w
}

// check looks at what a call that has succeeded left behind.
func (f spec) check(s position, w ring.Collective) error {
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

// heap allocates room in Go's memory.
func heap(elements int) []float32 { return make([]float32, elements) }

// way is how a rank makes a call.
type caller func(ctx context.Context, c *ring.Comm, w ring.Collective) error

func synchronously(ctx context.Context, c *ring.Comm, w ring.Collective) error { return c.Do(ctx, w) }

// started starts the call, and waits for it.
func asynchronously(ctx context.Context, c *ring.Comm, w ring.Collective) error {
	h, err := c.Start(w)
	if err != nil {
		return err
	}
	return h.Wait(ctx)
}

// once makes one call and checks it.
func (f spec) once(c *ring.Comm, s position, do caller) error {
	s = s.at(c)
	w := f.fill(s, heap)
	if err := do(ctx, c, w); err != nil {
		return err
	}
	return f.check(s, w)
}

// specOf is the spec with that name.
func specOf(name string) (spec, error) {
	for _, f := range specs() {
		if f.name == name {
			return f, nil
		}
	}
	return spec{}, errors.New("no form " + strconv.Quote(name))
}

// differ checks that err tells of calls that differ, with all of words.
func differ(err error, words ...string) error {
	mismatch := new(ring.MismatchError)
	peer := new(ring.PeerError)
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
