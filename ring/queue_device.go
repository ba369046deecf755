package ring

import (
	"context"
	"fmt"
)

// gpuPlace is where a queue's tensors are that are in the memory of a GPU, and what moves them.
type gpuPlace struct {
	chosen  bool // by the first SubmitDevice; this, and what follows, by the queue's lock
	ordinal int
	stream  Stream

	device *Device      // of who makes a cycle; nil until the first tensor runs
	calls  []DeviceCall // of one launch
}

// SubmitDevice is [Queue.SubmitGroup] for tensors in the memory of the GPU with that number, which are enqueued on s. What works
// on them may be enqueued when their Tickets are over: that says that they are on the stream, not that it has come to
// them. Their order on it is what the ranks agree on, so that none waits for another that waits for it.
//
// A rank has all tensors of a queue on one GPU and one stream: which ones, the first call says. The [Device] is made when the
// first of them runs, at the same point on all ranks; where it cannot be, the tensor fails with the error of
// [NewDevice]. A rank that has joined has no zeros for them, so what the others submit fails with a [*JoinedError].
func (q *Queue) SubmitDevice(tickets []Ticket, ordinal int, s Stream, names []string, work []Collective) ([]Ticket, error) {
	for i, w := range work {
		if w.Kind == KindBarrier {
			return tickets, fmt.Errorf("ring: queue: a barrier has no data: submit it without a GPU (tensor %d of a group)", i)
		}
	}
	q.mu.Lock()
	g := &q.gpu
	if g.chosen && (g.ordinal != ordinal || g.stream != s) {
		err := fmt.Errorf("ring: queue: tensors on GPU %d and stream %#x, and those before were on GPU %d and stream %#x: a rank has all tensors of a queue on one",
			ordinal, s, g.ordinal, g.stream)
		q.mu.Unlock()
		return tickets, err
	}
	g.chosen, g.ordinal, g.stream = true, ordinal, s
	q.mu.Unlock()
	return q.submitGroup(tickets, names, work, true)
}

// runOnDevice launches tensors as one: NCCL wants all ranks to make the same groups. Own is an error that all ranks have alike and
// that leaves them in step.
func (q *Queue) runOnDevice(tensors []*tensor) (own, err error) {
	g := &q.gpu
	q.mu.Lock()
	ordinal, stream := g.ordinal, g.stream
	g.calls = g.calls[:0]
	for _, t := range tensors {
		g.calls = append(g.calls, DeviceCall{Collective: t.work})
	}
	q.mu.Unlock()
	defer clear(g.calls) // the callers' memory is not ours to keep
	ctx := context.Background()
	if g.device == nil {
		if g.device, err = NewDevice(ctx, q.data, ordinal); err != nil {
			g.device = nil
			return q.ownOf(err)
		}
	}
	if err := g.device.Do(ctx, stream, g.calls...); err != nil {
		return q.ownOf(err)
	}
	return nil, nil
}

// ownOf tells an error of one tensor from one that ends the queue.
func (q *Queue) ownOf(err error) (own, all error) {
	if q.data.life.Err() != nil || q.gpu.device != nil && q.gpu.device.Err() != nil {
		return nil, err
	}
	return err, nil
}

// closeDevice gives the GPU back. The queue's goroutine calls it, when no cycle is made any more.
func (q *Queue) closeDevice() {
	if q.gpu.device != nil {
		_ = q.gpu.device.Close() // what has failed was told to who launched it
		q.gpu.device = nil
	}
}
