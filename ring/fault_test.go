package ring_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
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
	inPlace bool                            // src is rank's part of dst
	apart   int                             // from the rank that a message goes to
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
		message("message", 1),
		{name: "allgather of unlike parts", kind: ring.KindAllGather, unlike: true, in: ragged, out: raggedAll,
			give: mine,
			want: func(s position, i int) float32 { from := s.owner(i); return at(from, i-s.begin(from)) }},
		{name: "reduce-scatter of unlike parts", kind: ring.KindReduceScatter, op: ring.Sum, unlike: true,
			in: raggedAll, out: ragged, give: mine,
			want: func(s position, i int) float32 { return sum(s, s.begin(s.rank)+i) }},
	}
}

// forms returns specs, and variants of them.
func forms() []spec {
	all := specs()
	for _, f := range specs() {
		f.inPlace = f.kind == ring.KindAllReduce || f.kind == ring.KindAllGather
		if f.inPlace {
			f.name += " in place"
			all = append(all, f)
		}
	}
	mine := func(s position, i int) float32 { return at(s.rank, i) }
	ragged := func(s position) int { return s.length(s.rank) }
	whole := func(s position) int { return s.begin(s.size) }
	atRoot := func(s position) int {
		if s.rank != s.root {
			return 0
		}
		return whole(s)
	}
	return append(all, []spec{
		message("message to itself", 0),
		message("message to the next but one", 2),
		{name: "gather of unlike parts", kind: ring.KindGather, unlike: true, in: ragged, out: atRoot, give: mine,
			want: func(s position, i int) float32 { from := s.owner(i); return at(from, i-s.begin(from)) }},
		{name: "scatter of unlike parts", kind: ring.KindScatter, unlike: true, in: atRoot, out: ragged, give: mine,
			want: func(s position, i int) float32 { return at(s.root, s.begin(s.rank)+i) }},
		{name: "alltoall of unlike parts", kind: ring.KindAllToAll, unlike: true,
			in:   func(s position) int { return total(s.sends(s.rank)) },
			out:  func(s position) int { return total(s.receives()) },
			give: mine,
			want: func(s position, i int) float32 {
				from := 0
				for counts := s.receives(); i >= counts[from]; from++ {
					i -= counts[from]
				}
				return at(from, total(s.sends(from)[:s.rank])+i)
			}},
	}...)
}

// message goes to the rank that is so many further on.
func message(name string, apart int) spec {
	part := func(s position) int { return s.n }
	return spec{
		name:  name,
		kind:  ring.KindMessage,
		apart: apart,
		in:    part,
		out:   part,
		give:  func(s position, i int) float32 { return at(s.rank, i) },
		want:  func(s position, i int) float32 { return at(s.back(apart), i) },
	}
}

// rooted reports whether calls of this kind have a root.
func (f spec) rooted() bool {
	switch f.kind {
	case ring.KindBroadcast, ring.KindReduce, ring.KindGather, ring.KindScatter:
		return true
	}
	return false
}

func none(position) int { return 0 }

func total(counts []int) (n int) {
	for _, more := range counts {
		n += more
	}
	return n
}

// back is the rank so many before s.
func (s position) back(apart int) int { return (s.rank + s.size - apart%s.size) % s.size }

// length is how long rank's part is where parts are unlike.
func (s position) length(rank int) int { return s.n * (rank % 3) }

// sends are the lengths of what rank sends to each where parts are unlike; receives, of what s
// gets.
func (s position) sends(rank int) (counts []int) {
	for to := range s.size {
		counts = append(counts, s.n*((rank+2*to)%3))
	}
	return counts
}

func (s position) receives() (counts []int) {
	for from := range s.size {
		counts = append(counts, s.sends(from)[s.rank])
	}
	return counts
}

func (s position) begin(rank int) int {
	at := 0
	for q := range rank {
		at += s.length(q)
	}
	return at
}

// partAt is where the part of s begins in all of them.
func (s position) partAt(unlike bool) int {
	if unlike {
		return s.begin(s.rank)
	}
	return s.n * s.rank
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
	if f.inPlace && f.kind == ring.KindAllReduce {
		src = dst
	} else if f.inPlace {
		src = dst[s.partAt(f.unlike):][:len(src)]
	}
	for i := range dst {
		dst[i] = -1
		if f.kind == ring.KindBroadcast {
			dst[i] = at(s.rank, i)
		}
	}
	for i := range src {
		src[i] = f.give(s, i)
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
		w.To = (s.rank + f.apart) % s.size
		w.From = s.back(f.apart)
	case f.unlike && f.kind == ring.KindAllToAll:
		w.Counts = s.receives()
		w.Sends = s.sends(s.rank)
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
	if f.inPlace {
		return nil
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

// caller is how a rank makes a call.
type caller func(ctx context.Context, c *ring.Comm, w ring.Collective) error

func synchronously(ctx context.Context, c *ring.Comm, w ring.Collective) error { return c.Do(ctx, w) }

// asynchronously starts the call, and waits for it.
func asynchronously(ctx context.Context, c *ring.Comm, w ring.Collective) error {
	h, err := c.Start(w)
	if err != nil {
		return err
	}
	return h.Wait(ctx)
}

// byName makes the call by the function that is named after its kind.
func byName(ctx context.Context, c *ring.Comm, w ring.Collective) error {
	dst := elements(w.Dst)
	src := elements(w.Src)
	if (w.Kind == ring.KindReduce || w.Kind == ring.KindGather) && c.Rank() != w.Root {
		dst = []float32{5} // is not used
		defer func() {
			if dst[0] != 5 {
				panic("a rank that is not the root has got a result")
			}
		}()
	}
	switch w.Kind {
	case ring.KindBarrier:
		return ring.Barrier(ctx, c)
	case ring.KindBroadcast:
		return ring.Broadcast(ctx, c, dst, w.Root)
	case ring.KindAllReduce:
		if w.Dst == w.Src {
			return ring.AllReduce(ctx, c, dst, w.Op)
		}
		return ring.AllReduceInto(ctx, c, dst, src, w.Op)
	case ring.KindReduce:
		return ring.Reduce(ctx, c, dst, src, w.Op, w.Root)
	case ring.KindReduceScatter:
		return ring.ReduceScatterV(ctx, c, dst, src, w.Counts, w.Op)
	case ring.KindAllGather:
		return ring.AllGatherV(ctx, c, dst, src, w.Counts)
	case ring.KindGather:
		return ring.GatherV(ctx, c, dst, src, w.Counts, w.Root)
	case ring.KindScatter:
		return ring.ScatterV(ctx, c, dst, src, w.Counts, w.Root)
	case ring.KindAllToAll:
		if w.Counts == nil {
			return ring.AllToAll(ctx, c, dst, src)
		}
		return ring.AllToAllV(ctx, c, dst, src, w.Counts, w.Sends)
	}
	if c.Size() == 1 || w.To != (c.Rank()+1)%c.Size() {
		return ring.SendRecv(ctx, c, dst, w.From, src, w.To)
	}
	if c.Rank() == 0 { // else all might wait for room
		return errors.Join(ring.Send(ctx, c, src, w.To), ring.Recv(ctx, c, dst, w.From))
	}
	return errors.Join(ring.Recv(ctx, c, dst, w.From), ring.Send(ctx, c, src, w.To))
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

// byAll makes one call of all ranks and checks it.
func (f spec) byAll(comms []*ring.Comm, s position, do caller) error {
	return ringtest.Each(len(comms), func(rank int) error { return f.once(comms[rank], s, do) })
}

// everyKind makes a call of every kind, of n elements, and checks it.
func everyKind(t *testing.T, comms []*ring.Comm, n int, do caller) {
	t.Helper()
	for _, f := range specs() {
		must.OK(t, f.byAll(comms, position{n: n}, do), f.name, "of", n)
	}
}

// specOf is the spec with that name, which exists.
func specOf(name string) spec {
	all := specs()
	return all[slices.IndexFunc(all, func(f spec) bool { return f.name == name })]
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
