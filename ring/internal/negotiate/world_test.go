package negotiate

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// world is all ranks of a job in one test, with the two allgathers between them.
type world struct {
	t     *testing.T
	now   time.Time
	ranks []*Negotiator
	boxes []*Outbox
	skew  time.Duration // of the clocks of two ranks next to each other
	bytes int           // of the longest list in the last cycle
}

func newWorld(t *testing.T, size int, c Config) *world {
	w := &world{t: t, now: time.Unix(1000, 0)}
	for rank := range size {
		c.Rank = rank
		c.Size = size
		n := must.Get(New(c))(t)
		w.ranks = append(w.ranks, n)
		w.boxes = append(w.boxes, NewOutbox(rank, size))
	}
	return w
}

func (w *world) submit(rank int, r Request) {
	w.t.Helper()
	must.OK(w.t, w.boxes[rank].Submit(r))
}

// pack has every rank encode its requests.
func (w *world) pack() (frames []byte, rests [][]byte) {
	w.bytes = 0
	for rank, n := range w.ranks {
		var f Frame
		rest, sent := n.Encode(&f, w.boxes[rank].List())
		w.boxes[rank].Sent(sent)
		frames = append(frames, f[:]...)
		rests = append(rests, rest)
		w.bytes = max(w.bytes, len(n.out.b))
	}
	return frames, rests
}

// cycle runs one cycle, and fails unless all ranks come to equal outcomes. It returns
// rank 0's.
func (w *world) cycle() Outcome {
	w.t.Helper()
	out := must.Get(w.step(w.pack()))(w.t)
	for _, b := range out.Batches {
		for _, item := range b.Items {
			w.done(item.Name)
		}
	}
	for _, f := range out.Failures {
		w.done(f.Name)
	}
	return out
}

func (w *world) done(name string) {
	for _, b := range w.boxes {
		b.Done(name)
	}
}

func (w *world) step(frames []byte, rests [][]byte) (Outcome, error) {
	w.t.Helper()
	var first Outcome
	var firstErr error
	for rank, n := range w.ranks {
		byRank, err := n.Rests(frames)
		for other := range byRank {
			must.That(w.t, byRank[other] == len(rests[other]),
				"rank %d announces %d more bytes and has %d", other, byRank[other], len(rests[other]))
		}
		var out Outcome
		if err == nil {
			out, err = n.Step(w.now.Add(time.Duration(rank)*w.skew), frames, rests)
		}
		if rank == 0 {
			first = out
			firstErr = err
			continue
		}
		must.That(w.t, fmt.Sprint(err) == fmt.Sprint(firstErr),
			"rank 0 has error %v and rank %d %v", firstErr, rank, err)
		must.That(w.t, reflect.DeepEqual(out, first), "rank 0 comes to\n%+v\nand rank %d to\n%+v", first, rank, out)
	}
	return first, firstErr
}

// names are the names of an outcome's items, with a bar between batches.
func names(o Outcome) string {
	s := ""
	for i, b := range o.Batches {
		if i > 0 {
			s += "| "
		}
		for _, item := range b.Items {
			s += item.Name + " "
		}
	}
	for _, f := range o.Failures {
		s += "!" + f.Name + " "
	}
	return s
}

func sumOf(name string, count uint64) Request {
	return Request{
		Name:  name,
		Kind:  collective.AllReduce,
		Type:  kernel.F32,
		Op:    1,
		Count: count,
	}
}

func defaults() Config {
	return Config{Cache: DefaultCache, Fusion: DefaultFusion, StallAfter: time.Minute}
}
