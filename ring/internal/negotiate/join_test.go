package negotiate

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// An operation that needs all ranks fails once all that have not joined have submitted it, and
// not before.
func TestNotWithoutThoseWhoJoined(t *testing.T) {
	for want, r := range map[string]Request{
		`tensor "x", broadcast of 1 f32 from rank 1: ranks 1, 3 have joined`: {Name: "x", Kind: collective.Broadcast,
			Type: kernel.F32, Count: 1, Root: 1},
		`allreduce max of 1 f32: ranks 1, 3 have joined`: {Name: "x", Kind: collective.AllReduce,
			Type: kernel.F32, Op: 4, Count: 1},
		`allgather of 1 f32: ranks`: {Name: "x", Kind: collective.AllGather,
			Type: kernel.F32, Count: 1},
		`reducescatter sum of 4 f32: ranks`: {Name: "x", Kind: collective.ReduceScatter,
			Type: kernel.F32, Op: kernel.Sum, Count: 4},
		`alltoall of 4 f32: ranks`: {Name: "x", Kind: collective.AllToAll,
			Type: kernel.F32, Count: 4},
	} {
		w := newWorld(t, 4, defaults())
		w.ranks[1].Join()
		w.submit(0, r)
		w.cycle()
		w.ranks[3].Join()
		got := names(w.cycle())
		must.That(t, got == "", "%v: %q, and rank 2 has not submitted it", r, got)
		w.submit(2, r)
		out := w.cycle()
		joined := new(JoinedError)
		check.That(t, names(out) == "!x " && errors.As(out.Failures[0].Err, &joined) &&
			strings.Contains(joined.Error(), want) && out.Failures[0].Kind == r.Kind,
			"outcome %+v, want an error with %q", out, want)
		w.submit(0, sumOf("x", 1))
		w.submit(2, sumOf("x", 1))
		check.Equal(t, names(w.cycle()), "x ", "after a failure")
		// Ranks that had submitted it before they joined are no reason to fail.
		w.ranks[0].Join()
		w.submit(2, r)
		w.ranks[2].Join()
		check.Equal(t, names(w.cycle()), "!x ", "of one rank alone")
		for rank := range w.ranks {
			w.submit(rank, r)
			w.ranks[rank].Join()
		}
		if out := w.cycle(); names(out) != "x " || !out.Joined || out.Last != 3 {
			t.Errorf("of ranks that join when they have submitted it: %+v", out)
		}
	}
}

func TestJoinedIsNotMissing(t *testing.T) {
	w := newWorld(t, 4, defaults())
	w.submit(0, sumOf("a", 1))
	w.submit(3, sumOf("a", 1))
	w.ranks[1].Join()
	w.ranks[3].Join()
	w.cycle()
	n := w.ranks[2]
	check.Slice(t, n.Missing("a"), []int{2}, "missing")
	check.Slice(t, n.NotJoined(), []int{0, 2}, "not joined")
	later := w.now.Add(time.Minute)
	stalls, _ := n.Stalled(later)
	want := []Stall{{Request: sumOf("a", 1), Since: w.now, Missing: []int{2}, Ready: []int{0, 3}, Joined: []int{1}}}
	must.That(t, reflect.DeepEqual(stalls, want), "stalls %+v, want %+v", stalls, want)
	line := stalls[0].Line(later)
	check.That(t, strings.Contains(line, "for rank 2 (2 of 4 have submitted it, 1 joined)"), "%v", line)
}

// A rank joins with the last of its requests, not with the first megabytes of them.
func TestJoinAfterMegabytes(t *testing.T) {
	w := newWorld(t, 2, defaults())
	const tensors = 1100
	for i := range tensors {
		w.submit(1, sumOf(fmt.Sprintf("%0*d", MaxName, i), 1))
	}
	w.ranks[1].Join()
	w.cycle()
	check.That(t, w.ranks[1].Joining() && len(w.ranks[0].NotJoined()) == 2,
		"it has joined before its requests were made")
	w.ranks[0].Join()
	total := 0
	out := w.cycle()
	for _, b := range out.Batches {
		total += len(b.Items)
	}
	check.That(t, !w.ranks[1].Joining() && out.Joined && out.Last == 1 && total == tensors,
		"%d tensors ran, joined: %v", total, out.Joined)
}

func TestBadJoins(t *testing.T) {
	for want, speak := range map[string]func(w *world, f *Frame){
		"rank 1: joins again": func(w *world, f *Frame) { f[1] |= joinFlag },
		`rank 1: tensor "x" is submitted by a rank that has joined`: func(w *world, f *Frame) {
			var list records
			r := sumOf("x", 1)
			list.full(&r)
			f.seal(w.ranks[1].digest, list.b)
		},
		"rank 1 speaks version 4.4": func(w *world, f *Frame) { f[1] = 4 },
	} {
		w := newWorld(t, 2, defaults())
		w.ranks[1].Join()
		w.cycle()
		frames, rests := w.pack()
		speak(w, (*Frame)(frames[FrameSize:]))
		_, err := w.step(frames, rests)
		check.That(t, err != nil && strings.Contains(err.Error(), want), "want an error with %q, got %v", want, err)
	}
}

// Ranks that have recorded different joins detect that in the next step.
func TestJoinThatNotAllHeard(t *testing.T) {
	for name, says := range map[string][2][3]byte{ // to rank 0 and to the others, by sender
		"none":    {{joinFlag, 0, 0}, {0, 0, 0}},
		"another": {{0, joinFlag, 0}, {0, 0, joinFlag}},
	} {
		w := newWorld(t, 3, defaults())
		frames, rests := w.pack()
		for i, n := range w.ranks {
			for rank, flag := range says[min(i, 1)] {
				frames[rank*FrameSize+1] = flag
			}
			must.Get(n.Step(w.now, frames, rests))(t)
		}
		frames, _ = w.pack()
		check.Error(w.ranks[0].Rests(frames)).Says(t, "rank 1 is not at the same point", name)
	}
}

func TestJoinAlone(t *testing.T) {
	w := newWorld(t, 1, defaults())
	for range 3 {
		w.submit(0, sumOf("a", 1))
		w.ranks[0].Join()
		if out := w.cycle(); names(out) != "a " || !out.Joined || out.Last != 0 {
			t.Errorf("a world of one joins, and it comes to %+v", out)
		}
		w.now = w.now.Add(time.Second)
	}
}

// However many ranks have joined, what lacks them takes little memory: one rank may submit hundreds
// of thousands of names in a step.
func TestJoinedRanksAreCounted(t *testing.T) {
	const size = 40
	w := newWorld(t, size, defaults())
	for _, n := range w.ranks[1:] {
		n.Join()
	}
	w.cycle()
	gather := sumOf("x", 1)
	gather.Kind = collective.AllGather
	gather.Op = 0
	w.submit(0, gather)
	w.submit(0, sumOf("y", 1))
	out := w.cycle()
	joined := new(JoinedError)
	must.That(t, len(out.Failures) == 1 && errors.As(out.Failures[0].Err, &joined), "%+v", out)
	check.That(t, joined.Joined == size-1 && len(joined.First) == namedRanks, "%+v", joined)
	const named = "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 31 more have joined"
	check.That(t, strings.Contains(joined.Error(), named), "%v", joined)
	check.Equal(t, out.Batches[0].Items[0].Joined, size-1)
}
