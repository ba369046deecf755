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

func TestMismatch(t *testing.T) {
	f32 := Request{
		Name:  "x",
		Kind:  collective.AllReduce,
		Type:  kernel.F32,
		Op:    1,
		Count: 12,
		Shape: "3x4",
	}
	with := func(change func(*Request)) Request {
		r := f32
		change(&r)
		return r
	}
	root := func(root int32) Request {
		return Request{
			Name:  "x",
			Kind:  collective.Broadcast,
			Type:  kernel.F32,
			Count: 2,
			Root:  root,
		}
	}
	tests := []struct {
		name string
		said [3]Request
		want string
	}{
		{"type", [3]Request{f32, f32, with(func(r *Request) { r.Type = kernel.F64 })},
			`rank 0 submitted allreduce sum of 12 f32 in shape "3x4", rank 2 submitted allreduce sum of 12 f64 in shape "3x4"`},
		{"op", [3]Request{f32, with(func(r *Request) {
			r.Op = 3
		}), f32}, `rank 0 submitted allreduce sum of 12 f32 in shape "3x4", rank 1 submitted allreduce min of`},
		{"count", [3]Request{with(func(r *Request) {
			r.Count = 9
		}), f32, f32}, `rank 0 submitted allreduce sum of 9 f32 in shape "3x4", rank 1 submitted allreduce sum of 12`},
		{"shape", [3]Request{f32, with(func(r *Request) {
			r.Shape = "4x3"
		}), f32}, `"3x4", rank 1 submitted allreduce sum of 12 f32 in shape "4x3"`},
		{"memory", [3]Request{f32, with(func(r *Request) {
			r.GPU = true
		}), f32}, `rank 1 submitted allreduce sum of 12 f32 in shape "3x4" on GPUs;`},
		{"kind", [3]Request{f32, f32, {Name: "x", Kind: collective.Barrier}}, `rank 2 submitted barrier;`},
		{"root", [3]Request{root(0), root(0), root(2)},
			`rank 0 submitted broadcast of 2 f32 from rank 0, rank 2 submitted broadcast of 2 f32 from rank 2`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, warm := range []bool{false, true} {
				w := newWorld(t, 3, defaults())
				if warm { // the name has an id
					for rank := range 3 {
						w.submit(rank, tt.said[0])
					}
					w.cycle()
				}
				for rank, r := range tt.said {
					w.submit(rank, r)
					w.submit(rank, sumOf("y", 1))
				}
				out := w.cycle()
				must.Equal(t, names(out), "y !x ", "outcome")
				mismatch := new(MismatchError)
				err := out.Failures[0].Err
				check.That(t, errors.As(err, &mismatch) && strings.Contains(err.Error(), tt.want) &&
					strings.Contains(err.Error(), `tensor "x"`), "error: %v", err)
				for rank := range 3 {
					w.submit(rank, tt.said[1])
				}
				check.Equal(t, names(w.cycle()), "x ", "after a mismatch")
			}
		})
	}
}

func TestOutbox(t *testing.T) {
	box := NewOutbox(2, 3)
	must.OK(t, box.Submit(sumOf("a", 1)))
	duplicate := new(DuplicateError)
	if err := box.Submit(sumOf("a", 1)); !errors.As(err, &duplicate) || duplicate.Rank != 2 || duplicate.Name != "a" {
		t.Errorf("second submission: %v", err)
	}
	box.Sent(1)
	check.Error(box.Submit(sumOf("a", 1))).Any(t, "a name that was sent, and is not done, was taken again")
	box.Done("a")
	box.Done("a")
	box.Done("never heard of")
	if err := box.Submit(sumOf("a", 1)); err != nil || box.InFlight() != 1 || len(box.List()) != 1 {
		t.Errorf("after it was done: %v, %d in flight, list %v", err, box.InFlight(), box.List())
	}

	for name, r := range map[string]Request{
		"without a name":       {Kind: collective.Barrier},
		"a name of 4097 bytes": sumOf(strings.Repeat("n", 4097), 1),
		"a shape of 257 bytes": {Name: "x", Kind: collective.AllReduce, Type: kernel.F32, Op: 1,
			Shape: strings.Repeat("1", 257)},
		"unknown kind 5":                            {Name: "x", Kind: collective.Reduce},
		"unknown kind 0":                            {Name: "x"},
		"barrier with data":                         {Name: "x", Kind: collective.Barrier, Count: 1},
		"unknown dtype 77":                          {Name: "x", Kind: collective.AllReduce, Type: 77, Op: 1},
		"more than":                                 sumOf("x", MaxCount+1),
		"reducescatter needs an operation":          {Name: "x", Kind: collective.ReduceScatter, Type: kernel.F32},
		"allgather takes no operation, but has sum": {Name: "x", Kind: collective.AllGather, Type: kernel.F32, Op: 1},
		"allgather takes no root, but has rank 1":   {Name: "x", Kind: collective.AllGather, Type: kernel.F32, Root: 1},
		"root 3":  {Name: "x", Kind: collective.Broadcast, Type: kernel.F32, Root: 3},
		"root -1": {Name: "x", Kind: collective.Broadcast, Type: kernel.F32, Root: -1},
	} {
		err := box.Submit(r)
		check.That(t, err != nil && strings.Contains(err.Error(), name), "want an error with %q, got %v", name, err)
	}
	check.That(t, box.InFlight() == 1 && len(box.List()) == 1,
		"refused requests stayed: %d in flight, list %v", box.InFlight(), box.List())
}

func TestOutboxForgetsIdleNames(t *testing.T) {
	box := NewOutbox(0, 1)
	must.OK(t, box.Submit(sumOf("stays", 1)))
	for i := range 3 * idleNames {
		name := fmt.Sprint(i)
		must.OK(t, box.Submit(sumOf(name, 1)))
		box.Sent(1)
		box.Done(name)
	}
	check.That(t, len(box.names) <= idleNames+1 && box.names["stays"],
		"%d names are kept, %d in flight", len(box.names), box.InFlight())
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{{}, {Rank: 2, Size: 2}, {Rank: -1, Size: 2}, {Size: 1, Cache: -1},
		{Size: 1, Cache: 1 << 30}, {Size: 1, Fusion: -1}} {
		check.Error(New(c)).Any(t, c, "was taken")
	}
}

func TestOtherSettings(t *testing.T) {
	for _, other := range []Config{{Size: 2, Cache: 7, Fusion: 1}, {Size: 2, Cache: 8, Fusion: 2},
		{Size: 2, Cache: 8, Fusion: 1 << 40}} {
		w := newWorld(t, 2, Config{Cache: 8, Fusion: 1})
		other.Rank = 1
		w.ranks[1], _ = New(other)
		frames, _ := w.pack()
		check.Error(w.ranks[0].Rests(frames)).Says(t, "rank 1 is not at the same point", other)
	}
}

// Frames that are packed before a step and used after it are detected.
func TestStaleFrame(t *testing.T) {
	w := newWorld(t, 2, defaults())
	frames, rests := w.pack()
	must.Get(w.step(frames, rests))(t)
	check.Error(w.step(frames, rests)).Any(t, "a frame was taken twice")
}

func TestDuplicateOverTheWire(t *testing.T) {
	for _, warm := range []bool{false, true} {
		w := newWorld(t, 2, defaults())
		if warm {
			w.submit(0, sumOf("x", 1))
			w.submit(1, sumOf("x", 1))
			w.cycle()
		}
		w.submit(1, sumOf("x", 1))
		w.boxes[1].list = append(w.boxes[1].list, sumOf("x", 1))
		_, err := w.step(w.pack())
		duplicate := new(DuplicateError)
		must.That(t, errors.As(err, &duplicate) && *duplicate == (DuplicateError{Name: "x", Rank: 1}), "error: %v", err)
		_, again := w.step(w.pack())
		check.That(t, again != nil && again.Error() == err.Error(), "the next step: %v", again)
	}
}

// A rank that submits names without end is named by all ranks. Those of tensors that are complete
// do not count.
func TestNamesOfARankAreBounded(t *testing.T) {
	for _, kind := range []collective.Kind{collective.AllReduce, collective.AllGather} {
		w := newWorld(t, 3, defaults())
		for _, n := range w.ranks {
			n.maxOpen = 1 << 20
		}
		of := func(i int) Request {
			r := sumOf(fmt.Sprint("tensor ", i), 1)
			if r.Kind = kind; kind == collective.AllGather {
				r.Op = 0
			}
			return r
		}
		for i := range 4000 { // that are complete
			for rank := range w.ranks {
				w.submit(rank, of(i))
			}
			w.cycle()
			w.done(of(i).Name)
		}
		check.Slice(t, w.ranks[0].opened, []int{0, 0, 0}, kind)
		var err error
		cycles := 0
		for ; err == nil && cycles < 4000; cycles++ {
			w.submit(1, of(cycles))
			_, err = w.step(w.pack())
		}
		check.That(t, cycles > 500 && cycles < 4000, "%v: it ends after %d names", kind, cycles)
		check.Error(err).Says(t, "rank 1: it submits tensors", kind)
	}
}

// The rank that opens a round answers for its memory, so another one makes it take no more.
func TestOtherKindsTakeNoCounts(t *testing.T) {
	w := newWorld(t, 3, defaults())
	w.submit(1, Request{Name: "x", Kind: collective.Barrier})
	w.cycle()
	gather := sumOf("x", 1)
	gather.Kind = collective.AllGather
	gather.Op = 0
	w.submit(2, gather)
	w.cycle()
	check.That(t, w.ranks[0].names["x"].counts == nil, "counts of a round of barriers")
	w.submit(0, gather)
	out := w.cycle()
	must.That(t, len(out.Failures) == 1, "%d failures", len(out.Failures))
	check.That(t, errors.As(out.Failures[0].Err, new(*MismatchError)), "%v", out.Failures[0].Err)
}

func TestStalled(t *testing.T) {
	w := newWorld(t, 20, defaults())
	start := w.now
	for rank := 3; rank < 20; rank += 16 {
		w.submit(rank, sumOf("slow", 12))
	}
	w.cycle()
	w.now = start.Add(30 * time.Second)
	w.submit(0, Request{Name: "slower", Kind: collective.Barrier})
	w.cycle()

	n := w.ranks[7]
	expect := func(after time.Duration, want ...string) []Stall {
		t.Helper()
		stalls, _ := n.Stalled(start.Add(after))
		var got []string
		for _, s := range stalls {
			got = append(got, s.Name)
		}
		check.That(t, reflect.DeepEqual(got, want), "after %v: %v, want %v", after, got, want)
		return stalls
	}
	expect(59 * time.Second)
	stalls := expect(61*time.Second, "slow")
	got := stalls[0]
	check.That(t, reflect.DeepEqual(got.Ready, []int{3, 19}) && len(got.Missing) == 18 && got.Since.Equal(start),
		"stall: %+v", got)
	const line = `tensor "slow", allreduce sum of 12 f32, has waited 1m1s for ranks 0, 1, 2, 4, 5, 6, 7, 8 and 10 more ` +
		`(2 of 20 have submitted it); see whether they hang or skip it`
	check.Equal(t, stalls[0].Line(start.Add(61*time.Second)), line, "line")
	expect(89 * time.Second)
	expect(95*time.Second, "slower")
	expect(121*time.Second, "slow")
	expect(122 * time.Second)

	for rank := range 20 {
		if rank%16 != 3 {
			w.submit(rank, sumOf("slow", 12))
		}
	}
	check.Equal(t, names(w.cycle()), "slow ", "ready")
	expect(10*time.Minute, "slower")
	w.submit(3, sumOf("slow", 12))
	w.now = start.Add(11 * time.Minute)
	w.cycle()
	expect(11*time.Minute+59*time.Second, "slower")
	expect(12*time.Minute+1*time.Second, "slow")

	n.config.StallAfter = 0
	expect(time.Hour)
}

// The others' report of a rank that submits very many tensors is bounded.
func TestStallsAreBounded(t *testing.T) {
	w := newWorld(t, 2, defaults())
	for i := range 1000 {
		w.submit(1, sumOf(fmt.Sprint(i), 1))
	}
	w.cycle()
	stalls, more := w.ranks[0].Stalled(w.now.Add(time.Hour))
	check.That(t, len(stalls) == maxStalls && more == 1000-maxStalls && stalls[0].Name == "0",
		"%d stalls and %d more", len(stalls), more)
	stalls, more = w.ranks[0].Stalled(w.now.Add(time.Hour + time.Second))
	check.That(t, len(stalls) == 0 && more == 0, "they are reported again after a second")
}

func TestRankList(t *testing.T) {
	for want, ranks := range map[string][]int{"rank 5": {5}, "ranks 1, 2": {1, 2},
		"ranks 0, 1, 2, 3, 4, 5, 6, 7": {0, 1, 2, 3, 4, 5, 6, 7}} {
		check.Equal(t, RankList(ranks), want, ranks)
	}
}
