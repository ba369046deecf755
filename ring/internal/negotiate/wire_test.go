package negotiate

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// readAll decodes a list without a cache.
func readAll(list []byte) (all []record, ok bool) {
	in := reader{b: list}
	for in.more() {
		var rec record
		if !in.next(&rec) {
			return all, false
		}
		all = append(all, rec)
	}
	return all, true
}

func TestRecords(t *testing.T) {
	full := Request{
		Name:  "näme\x00\"",
		Shape: "2x3",
		Count: 1 << 39,
		Root:  1<<31 - 1,
		Kind:  collective.Broadcast,
		Type:  kernel.Bool,
		Op:    200,
		GPU:   true,
	}
	var w records
	w.reset()
	for _, id := range []int{7, 8, 9, 3, 3, 1000, 1001} {
		w.id(id)
	}
	w.full(&full)
	w.id(1002)
	w.flush()
	got, ok := readAll(w.b)
	must.That(t, ok && len(got) == 6, "%d records, whole: %v", len(got), ok)
	for i, want := range []record{{from: 7, n: 3}, {from: 3, n: 1}, {from: 3, n: 1}, {from: 1000, n: 2}, {},
		{from: 1002, n: 1}} {
		if i != 4 && !reflect.DeepEqual(got[i], want) {
			t.Errorf("record %d: %+v, want %+v", i, got[i], want)
		}
	}
	again := got[4].request
	again.Name = string(got[4].name)
	again.Shape = string(got[4].shape)
	check.Equal(t, again, full)

	for cut := range len(w.b) { // a list that is cut is noticed, unless between records
		part, ok := readAll(w.b[:cut])
		check.That(t, !ok || len(part) < 6, "%d of %d bytes give %d records", cut, len(w.b), len(part))
	}
}

func TestFrameHead(t *testing.T) {
	f := new(Frame)
	f.seal(77, make([]byte, room+5))
	list, rest, err := openFrame(f[:], 77)
	check.That(t, err == nil && len(list) == room && rest == 5, "%d bytes and %d more, %v", len(list), rest, err)
	for want, spoil := range map[string]func(){
		"version 1.0":           func() { f[0] = 1 },
		"version 4.4":           func() { f[1] = 4 },
		"not at the same point": func() { f[2]++ },
		"announces":             func() { f[8] = 255 },
	} {
		f.seal(77, nil)
		spoil()
		_, _, err := openFrame(f[:], 77)
		check.That(t, err != nil && strings.Contains(err.Error(), want), "want an error with %q, got %v", want, err)
	}
}

// A hundred tensors that were agreed on fit a frame in any order, and any number of
// them in the usual order.
func TestSteadyStateFitsFrame(t *testing.T) {
	w := newWorld(t, 3, defaults())
	const tensors = 1000
	submit := func(order []int) {
		for rank := range w.ranks {
			for _, i := range order {
				w.submit(rank, sumOf(fmt.Sprintf("layer/%d/weight", i), uint64(i)))
			}
		}
		w.cycle()
	}
	order := rand.New(rand.NewPCG(3, 4)).Perm(tensors)
	submit(order)
	must.That(t, w.bytes >= 10*tensors, "the first time, %d tensors took %d bytes", tensors, w.bytes)
	submit(order)
	check.That(t, w.bytes <= 10, "in the usual order, %d tensors take %d bytes", tensors, w.bytes)
	submit(rand.New(rand.NewPCG(5, 6)).Perm(tensors)[:120])
	check.That(t, w.bytes <= room, "in another order, 120 tensors take %d bytes, more than %d", w.bytes, room)
	check.That(t, w.bytes >= 120, "120 tensors in random order took %d bytes: the order was not random", w.bytes)
}

func TestBadLists(t *testing.T) {
	full := func(r Request) []byte {
		var w records
		w.full(&r)
		return w.b
	}
	for want, list := range map[string][]byte{
		"id 5, which no tensor has": {1 + 2*5},
		"id 1, which no tensor has": {2 + 2*0, 100}, // id 0 there is
		"is garbled":                {0, 200},
		"without a name":            full(Request{Kind: collective.Barrier}),
		"root 3": full(Request{
			Name: "x",
			Kind: collective.Broadcast,
			Type: kernel.F32,
			Root: 3,
		}),
		"unknown kind 99": full(Request{Name: "x", Kind: 99}),
		"unknown dtype":   full(Request{Name: "x", Kind: collective.AllReduce, Op: 1}),
	} {
		w := newWorld(t, 2, defaults())
		w.submit(0, sumOf("known", 1))
		w.submit(1, sumOf("known", 1))
		w.cycle()
		frames, rests := w.pack()
		(*Frame)(frames[FrameSize:]).seal(w.ranks[0].digest, list)
		_, err := w.step(frames, rests)
		check.That(t, err != nil && strings.Contains(err.Error(), "rank 1") && strings.Contains(err.Error(), want),
			"want an error of rank 1 with %q, got %v", want, err)
	}
}

func TestRestThatWasNotAnnounced(t *testing.T) {
	long := bytes.Repeat([]byte{'n'}, 2*FrameSize)
	for _, rests := range [][][]byte{nil, {nil}, {nil, long[:3]}} {
		w := newWorld(t, 2, defaults())
		w.submit(1, sumOf(string(long), 1))
		frames, _ := w.pack()
		check.Error(w.ranks[0].Step(w.now, frames, rests)).Says(t, "others came", "rests", rests)
	}
	w := newWorld(t, 2, defaults())
	check.Error(w.ranks[0].Step(w.now, make([]byte, FrameSize), nil)).Any(t,
		"one frame was taken for those of two ranks")
}

// Any bytes from one rank are an error or a list of requests, equally on all ranks, and the
// other ranks' requests remain.
func FuzzStep(f *testing.F) {
	full := func(r Request) []byte {
		var w records
		w.full(&r)
		return w.b
	}
	f.Add([]byte{}, []byte{}, uint8(0), uint8(0))
	f.Add([]byte{1}, []byte{2, 0}, uint8(joinFlag), uint8(0))
	f.Add(full(sumOf("a", 3)), full(sumOf("new", 4)), uint8(0), uint8(joinFlag))
	f.Add([]byte{}, []byte{}, uint8(joinFlag), uint8(joinFlag))
	f.Add(full(sumOf("mine", 1)), []byte{1}, uint8(joinFlag|leaveFlag), uint8(4))
	f.Add(full(Request{
		Name:  "c",
		Kind:  collective.AllGather,
		Type:  kernel.U8,
		Count: 9,
	}), []byte{0}, uint8(0), uint8(0))
	f.Add(bytes.Repeat(full(sumOf("a", 3)), 40), []byte{2, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, uint8(0),
		uint8(0))
	f.Fuzz(func(t *testing.T, first, second []byte, says, saysThen uint8) {
		w := newWorld(t, 2, Config{Cache: 3, Fusion: 1 << 10, StallAfter: time.Second})
		for rank := range w.ranks {
			w.submit(rank, sumOf("a", 1))
			w.submit(rank, Request{
				Name:  "b",
				Kind:  collective.AllGather,
				Type:  kernel.U8,
				Count: uint64(rank),
			})
		}
		w.cycle()
		w.submit(0, sumOf("mine", 1))
		ran := false // or failed, after which the name may be asked for again
		for i, list := range [][]byte{first, second} {
			frames, rests := w.pack()
			if len(list) > MaxRest {
				return
			}
			rests[1] = (*Frame)(frames[FrameSize:]).seal(w.ranks[0].digest, list)
			frames[FrameSize+1] = []uint8{says, saysThen}[i]
			out, err := w.step(frames, rests)
			if err != nil {
				return
			}
			var items []Item
			for _, b := range out.Batches {
				items = append(items, b.Items...)
			}
			checkBatches(t, out.Batches, items, 1<<10)
			ran = ran || slices.ContainsFunc(items, func(item Item) bool { return item.Name == "mine" }) ||
				slices.ContainsFunc(out.Failures, func(f Failure) bool { return f.Name == "mine" })
		}
		check.That(t, (says|saysThen)&joinFlag == 0 || (says|saysThen)&leaveFlag != 0 || ran ||
			!w.ranks[0].Open("mine"), "a tensor waits for a rank that has joined")
		e := w.ranks[1].names["mine"]
		check.That(t, e == nil || !e.open || e.has(0) || ran, "the other rank's request is gone")
	})
}
