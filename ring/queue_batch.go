package ring

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/negotiate"
	"github.com/gorun/gorun/ring/internal/timeline"
)

// usualFused is how much fusion memory is made at once, unless the threshold is lower. More is made
// on demand, since a threshold may exceed the machine's memory.
const usualFused = negotiate.DefaultFusion

// runner is the state of running batches.
type runner struct {
	ready  []*tensor // tensors of all batches, in order; nil where this rank has joined
	fused  []byte    // memory for tensors that run as one, once it was needed
	spare  []byte    // memory for tensors that this rank has joined
	counts []int     // elements from each rank, where they are unlike
	sizes  []int64   // elements to each rank, then from each
}

func (r *runner) init(size int) {
	r.counts = make([]int, size)
	r.sizes = make([]int64, 2*size)
}

// collect finds this rank's tensors of all batches. The lock is held.
func (q *Queue) collect(batches []negotiate.Batch) error {
	q.ready = q.ready[:0]
	for _, b := range batches {
		for i := range b.Items {
			t, err := q.find(b.Items[i].Name)
			if err != nil {
				return err
			}
			q.ready = append(q.ready, t)
			q.noteAgreed(&b.Items[i])
		}
	}
	return nil
}

// runAll runs batches in order. An error is one of the Comm, and ends the queue.
func (q *Queue) runAll(batches []negotiate.Batch) error {
	defer func() { clear(q.ready) }() // names that do not come again are not ours to keep
	rest := q.ready
	for _, b := range batches {
		tensors := rest[:len(b.Items)]
		rest = rest[len(b.Items):]
		own, err := q.runBatch(b, tensors)
		if err != nil {
			return err
		}
		q.mu.Lock()
		q.doing = activity{}
		for i, t := range tensors {
			q.noteEnd(&b.Items[i])
			if t != nil {
				t.finish(own)
			}
		}
		q.changed.Broadcast()
		q.mu.Unlock()
	}
	return nil
}

// runBatch runs one batch. Own is an error of its tensor, on this rank or on all, that leaves the
// ranks in step.
func (q *Queue) runBatch(b negotiate.Batch, tensors []*tensor) (own, err error) {
	q.mu.Lock()
	q.doing = activity{what: negotiate.Name(b.Items[0].Kind), name: b.Items[0].Name, since: time.Now()}
	q.mu.Unlock()
	for i := range b.Items {
		q.timeline.Leave(b.Items[i].Name, timeline.Queue)
	}
	item := &b.Items[0]
	t := tensors[0]
	q.data.calls.label = label{item.Name, len(tensors) - 1}
	if len(tensors) > 1 && !item.GPU {
		return nil, q.runFused(b, tensors)
	}
	if strings.HasPrefix(item.Shape, equalParts) {
		if own = unequal(item); own != nil {
			return own, nil
		}
	}
	q.timeline.Enter(item.Name, movePhase(item.Kind))
	defer q.timeline.Leave(item.Name, movePhase(item.Kind))
	switch {
	case item.GPU:
		return q.runOnDevice(tensors)
	case item.Joined > 0:
		return nil, q.runJoined(item, t)
	case t.room == nil:
		return nil, q.move(t.work)
	case item.Kind == KindAllToAll:
		if err = q.swapSizes(t.work.Sends); err != nil {
			return nil, err
		}
	default:
		for rank, n := range item.Counts {
			q.counts[rank] = int(n)
		}
	}
	return q.runUnlike(t)
}

func (q *Queue) move(w Collective) error { return q.data.Do(context.Background(), w) }

// unequal is the error of a collective of equal parts to which ranks bring parts that are
// not.
func unequal(item *negotiate.Item) error {
	for rank, n := range item.Counts {
		if n == item.Counts[0] {
			continue
		}
		first := item.Request
		other := item.Request
		first.Count = item.Counts[0]
		other.Count = n
		return &TensorMismatchError{Name: item.Name, Ranks: [2]int{0, rank},
			Said: [2]string{first.String(), other.String()}}
	}
	return nil
}

// swapSizes exchanges how many elements of an alltoall come from each rank, when sends go to each.
func (q *Queue) swapSizes(sends []int) error {
	to := q.sizes[:q.size]
	from := q.sizes[q.size:]
	for rank, n := range sends {
		to[rank] = int64(n)
	}
	if err := q.move(Collective{
		Kind: KindAllToAll,
		Type: Int64,
		Dst:  BufferOf(from),
		Src:  BufferOf(to),
	}); err != nil {
		return err
	}
	for rank, n := range from {
		if n < 0 || n > negotiate.MaxCount {
			return fmt.Errorf("ring: queue: rank %d says that it sends %d elements", rank, n)
		}
		q.counts[rank] = int(n)
	}
	return nil
}

// runUnlike runs a collective with q.counts elements from each rank. If its room does not fit, the
// elements go to spare memory, because the other ranks depend on this one.
func (q *Queue) runUnlike(t *tensor) (own, err error) {
	w := t.work
	total := collective.Total(q.counts)
	if most := memoryOfMachine(); total > most/w.Type.Size() {
		biggest := slices.Index(q.counts, slices.Max(q.counts))
		return nil, fmt.Errorf("ring: %v: tensor %q: %d elements come, %d of them from rank %d, which is more than "+
			"this machine's memory of %d bytes", w.Kind, t.name, total, q.counts[biggest], biggest, most)
	}
	w.Counts = q.counts
	w.Dst = t.room(q.counts)
	if w.Dst.Len != total {
		own = fmt.Errorf("ring: %v: tensor %q: room for %d elements, and %d come", w.Kind, t.name, w.Dst.Len, total)
	} else if cerr := q.data.check(&w, new(Call)); cerr != nil {
		own = fmt.Errorf("%w (tensor %q)", cerr, t.name)
	}
	if own != nil {
		spare := make([]uint64, (total*w.Type.Size()+7)/8)
		w.Dst = Buffer{Ptr: pointer(bytesOf(spare)), Len: total}
	}
	return own, q.move(w)
}

// runFused allreduces the tensors of b as one. A rank that has joined contributes zeros.
func (q *Queue) runFused(b negotiate.Batch, tensors []*tensor) error {
	if int64(len(q.fused)) < b.Bytes {
		q.fused = bytesOf(make([]uint64, max((b.Bytes+7)/8, min((q.set.fusion+7)/8, usualFused/8))))
	}
	all := q.fused[:b.Bytes]
	end := int64(0)
	for i, t := range tensors {
		item := &b.Items[i]
		q.timeline.Enter(item.Name, timeline.MemcpyIn)
		clear(all[end:item.Offset]) // gaps are sent too
		end = item.Offset + item.Bytes()
		if t == nil {
			clear(all[item.Offset:end])
		} else {
			copy(all[item.Offset:], t.work.Src.Bytes(t.work.Type))
		}
		q.timeline.Leave(item.Name, timeline.MemcpyIn)
		q.timeline.Enter(item.Name, movePhase(item.Kind))
	}
	w := Collective{Kind: KindAllReduce, Type: b.Items[0].Type, Op: b.Items[0].Op}
	w.Dst = Buffer{Ptr: pointer(all), Len: len(all) / w.Type.Size()}
	w.Src = w.Dst
	err := q.move(w)
	if err != nil {
		return err
	}
	for i := range tensors {
		q.timeline.Leave(b.Items[i].Name, movePhase(b.Items[i].Kind))
	}
	for i, t := range tensors {
		item := &b.Items[i]
		if t == nil {
			continue
		}
		q.timeline.Enter(item.Name, timeline.MemcpyOut)
		copy(t.work.Dst.Bytes(t.work.Type), all[item.Offset:][:item.Bytes()])
		q.timeline.Leave(item.Name, timeline.MemcpyOut)
	}
	return nil
}
