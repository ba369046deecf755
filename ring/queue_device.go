package ring

import (
	"context"
	"fmt"
)

// gpuPlace is the GPU and stream of a queue's device tensors, with the Device that moves them.
type gpuPlace struct {
	chosen  bool // set by the first SubmitDevice; the queue's lock guards it and all below
	ordinal int
	stream  Stream

	device *Device      // used by the goroutine that makes a cycle; nil until the first tensor runs
	calls  []DeviceCall // calls of one launch
}

// SubmitDevice is [Queue.SubmitGroup] for tensors in the memory of GPU ordinal, which run on stream
// s. A Ticket is done when its tensor is enqueued on the stream: work that depends on it may be
// enqueued then. The ranks agree on the order on the stream, so that no two ranks block each other.
//
// The first call fixes the GPU and stream of all later ones on a rank. The [Device] is made when
// the first tensor runs, at the same point on all ranks; if that fails, the tensor fails with the
// error of [NewDevice]. A rank that has joined has no zeros on the GPU, so such tensors of other
// ranks fail with a [*JoinedError].
func (q *Queue) SubmitDevice(tickets []Ticket, ordinal int, s Stream, names []string, work []Collective) ([]Ticket,
	error) {
	for i, w := range work {
		if w.Kind == KindBarrier {
			return tickets, fmt.Errorf("ring: queue: a barrier has no data: submit it without a GPU (tensor %d of a "+
				"group)", i)
		}
	}
	q.mu.Lock()
	g := &q.gpu
	if g.chosen && (g.ordinal != ordinal || g.stream != s) {
		err := fmt.Errorf("ring: queue: tensors on GPU %d and stream %#x, and those before were on GPU %d and stream "+
			"%#x: a rank has all tensors of a queue on one",
			ordinal, s, g.ordinal, g.stream)
		q.mu.Unlock()
		return tickets, err
	}
	g.chosen = true
	g.ordinal = ordinal
	g.stream = s
	q.mu.Unlock()
	return q.submitGroup(tickets, names, work, true)
}

// runOnDevice launches tensors as one, since NCCL needs the same groups on all ranks. Own is an
// error that all ranks get and that leaves them in step.
func (q *Queue) runOnDevice(tensors []*tensor) (own, err error) {
	g := &q.gpu
	q.mu.Lock()
	ordinal := g.ordinal
	stream := g.stream
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
	g.device.comm.calls.label = q.data.calls.label
	if err := g.device.Do(ctx, stream, g.calls...); err != nil {
		return q.ownOf(err)
	}
	return nil, nil
}

// ownOf separates the error of one tensor from one that ends the queue.
func (q *Queue) ownOf(err error) (own, all error) {
	if q.data.life.Err() != nil || q.gpu.device != nil && q.gpu.device.Err() != nil {
		return nil, err
	}
	return err, nil
}

// closeDevice releases the GPU. The queue's goroutine calls it after the last cycle.
func (q *Queue) closeDevice() {
	if q.gpu.device != nil {
		_ = q.gpu.device.Close() // the launcher of a failed call has its error
		q.gpu.device = nil
	}
}
