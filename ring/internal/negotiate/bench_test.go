package negotiate

import (
	"fmt"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// steady is one rank of a job in its steady state: all submit the same tensors in every cycle.
type steady struct {
	n      *Negotiator
	box    *Outbox
	list   []Request
	frames []byte
	now    time.Time
	ran    int
}

func newSteady(tb testing.TB, size, tensors int) *steady {
	c := defaults()
	c.Size = size
	n, err := New(c)
	must.OK(tb, err)
	s := &steady{n: n, box: NewOutbox(0, size), now: time.Unix(1000, 0)}
	for i := range tensors {
		r := sumOf(fmt.Sprintf("layer/%d/weight", i), uint64(1000*i))
		if i%10 == 9 {
			r = Request{
				Name:  r.Name,
				Kind:  collective.AllGather,
				Type:  kernel.I64,
				Count: 3,
			}
		}
		s.list = append(s.list, r)
	}
	s.frames = make([]byte, size*FrameSize)
	for range 2 { // the first time names travel in full, with a rest
		var f Frame
		rest, _ := n.Encode(&f, s.list)
		rests := make([][]byte, size)
		for rank := range size {
			copy(s.frames[rank*FrameSize:], f[:])
			rests[rank] = rest
		}
		must.Get(n.Step(s.now, s.frames, rests))(tb)
	}
	return s
}

// cycle does one rank's work in a cycle without the allgather: the other ranks' frames are
// copies of its own.
func (s *steady) cycle() error {
	for _, r := range s.list {
		if err := s.box.Submit(r); err != nil {
			return err
		}
	}
	frame := (*Frame)(s.frames)
	rest, sent := s.n.Encode(frame, s.box.List())
	s.box.Sent(sent)
	if len(rest) > 0 {
		return fmt.Errorf("%d bytes did not fit the frame", len(rest))
	}
	for at := FrameSize; at < len(s.frames); at += FrameSize {
		copy(s.frames[at:], frame[:])
	}
	out, err := s.n.Step(s.now, s.frames, nil)
	if err != nil {
		return err
	}
	s.ran = 0
	for _, b := range out.Batches {
		s.ran += len(b.Items)
		for i := range b.Items {
			s.box.Done(b.Items[i].Name)
		}
	}
	_ = s.n.Stalled(s.now)
	return nil
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	s := newSteady(t, 8, 100)
	if n := testing.AllocsPerRun(100, func() {
		must.OK(t, s.cycle())
	}); n != 0 {
		t.Errorf("%v allocations in a cycle", n)
	}
	check.That(t, s.ran == 100, "%d of 100 tensors ran in a cycle", s.ran)
}
