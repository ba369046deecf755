package ring

import (
	"fmt"

	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/negotiate"
)

// equalParts begins what is said of an allgather or alltoall to which all ranks give the same
// count.
const equalParts = "equal parts"

// Submit submits a collective on the tensor name and returns at once. W is an allreduce, broadcast,
// reduce-scatter or barrier, or an allgather or alltoall of equal parts, as [Comm.Do] takes them.
// The caller must not touch its memory and Counts, or use the name again, until the ticket is done.
// Errors are about the arguments ([*DuplicateError] among them), [ErrClosed], [ErrJoined], or what
// ended the queue; then nothing was submitted.
func (q *Queue) Submit(name string, w Collective) (Ticket, error) {
	r, err := q.request(name, &w)
	if err != nil {
		return Ticket{}, err
	}
	return q.submit(r, w, nil)
}

// SubmitV is [Queue.Submit] for parts of different lengths that other ranks do not know beforehand:
// an allgather of Src, or an alltoall of Src in parts of Sends. Dst and Counts stay zero. When all
// ranks have submitted the tensor, the queue's goroutine calls room with the number of elements
// from each rank, and room returns memory for all of them. Counts are valid during that call. If
// the memory has another length, the tensor fails on this rank only. Room must not wait for the
// queue.
func (q *Queue) SubmitV(name string, w Collective, room func(counts []int) Buffer) (Ticket, error) {
	r, err := q.requestV(name, &w, room)
	if err != nil {
		return Ticket{}, err
	}
	return q.submit(r, w, room)
}

func (q *Queue) submit(r negotiate.Request, w Collective, room func([]int) Buffer) (Ticket, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.open(); err != nil {
		return Ticket{}, err
	}
	t, err := q.enter(r, w, room)
	if err == nil {
		q.nudge()
	}
	return t, err
}

// open returns why nothing can be submitted, if so.
func (q *Queue) open() error {
	switch {
	case q.ending.closing:
		return ErrClosed
	case q.joining != nil:
		return ErrJoined
	}
	q.reportLeft()
	return q.ending.err
}

// SubmitGroup is [Queue.Submit] for several tensors at once: if all ranks submit the same groups,
// tensors that can be fused are fused, in the order of names. It appends their tickets to tickets.
// After an error nothing was submitted.
func (q *Queue) SubmitGroup(tickets []Ticket, names []string, work []Collective) ([]Ticket, error) {
	return q.submitGroup(tickets, names, work, false)
}

func (q *Queue) submitGroup(tickets []Ticket, names []string, work []Collective, gpu bool) ([]Ticket, error) {
	if len(names) != len(work) {
		return tickets, fmt.Errorf("ring: queue: a group of %d names and %d collectives", len(names), len(work))
	}
	for i, name := range names {
		if _, err := q.request(name, &work[i]); err != nil {
			return tickets, err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.open(); err != nil {
		return tickets, err
	}
	given := len(tickets)
	for i, name := range names {
		r, err := q.request(name, &work[i])
		r.GPU = gpu
		var t Ticket
		if err == nil {
			t, err = q.enter(r, work[i], nil)
		}
		if err != nil {
			q.withdraw(tickets[given:])
			return tickets[:given], err
		}
		tickets = append(tickets, t)
	}
	q.nudge()
	return tickets, nil
}

// withdraw takes back what was entered last. The lock is held.
func (q *Queue) withdraw(tickets []Ticket) {
	q.box.Withdraw(len(tickets))
	for _, t := range tickets {
		t.tensor.finish(nil)
		t.tensor.known = true
	}
}

// request describes w for the other ranks.
func (q *Queue) request(name string, w *Collective) (negotiate.Request, error) {
	if !negotiate.Takes(w.Kind) {
		return negotiate.Request{}, fmt.Errorf("ring: queue: tensor %.80q: a queue has no %v", name, w.Kind)
	}
	var call Call
	if err := q.data.check(w, &call); err != nil {
		return negotiate.Request{}, fmt.Errorf("%w (tensor %.80q)", err, name)
	}
	r := negotiate.Request{
		Name:  name,
		Kind:  w.Kind,
		Type:  call.Type,
		Op:    call.Op,
		Root:  int32(call.Root),
		Shape: w.Shape,
	}
	switch w.Kind {
	case KindAllReduce, KindBroadcast:
		r.Count = uint64(w.Dst.Len)
	case KindReduceScatter:
		r.Count = uint64(w.Src.Len)
		if w.Counts != nil {
			r.Shape = inParts(fmt.Sprintf("unlike parts (%#x)", call.Shape), w.Shape)
		}
	case KindAllGather, KindAllToAll:
		if w.Counts != nil || w.Sends != nil {
			return negotiate.Request{}, fmt.Errorf("ring: %v: parts of unlike lengths are for SubmitV (tensor %.80q)",
				w.Kind, name)
		}
		r.Count = uint64(w.Src.Len)
		r.Shape = inParts(equalParts, w.Shape)
	case KindBarrier:
		r.Shape = ""
	}
	return r, nil
}

// inParts describes a shape and its parts for the other ranks.
func inParts(parts, shape string) string {
	if shape == "" {
		return parts
	}
	return parts + " of " + shape
}

// requestV describes w of SubmitV for the other ranks.
func (q *Queue) requestV(name string, w *Collective, room func([]int) Buffer) (negotiate.Request, error) {
	bad := func(format string, args ...any) (negotiate.Request, error) {
		return negotiate.Request{}, fmt.Errorf("ring: %v: %s (tensor %.80q)", w.Kind, fmt.Sprintf(format, args...),
			name)
	}
	switch {
	case w.Kind != KindAllGather && w.Kind != KindAllToAll:
		return bad("only allgather and alltoall have parts of unknown lengths")
	case w.Type.Size() == 0:
		return bad("no such type as %v", w.Type)
	case w.Dst != Buffer{} || w.Counts != nil:
		return bad("dst and counts are not known before it runs: leave them zero")
	case w.Kind == KindAllGather && w.Sends != nil:
		return bad("sends are of an alltoall")
	case room == nil:
		return bad("there is no room for the result")
	}
	if w.Kind == KindAllToAll {
		if err := collective.CheckCounts("sends", w.Sends, q.data.Size()); err != nil {
			return bad("%v", err)
		}
		if collective.Total(w.Sends) != w.Src.Len {
			return bad("src has %d elements, but sends add up to %d", w.Src.Len, collective.Total(w.Sends))
		}
	}
	return negotiate.Request{
		Name:  name,
		Kind:  w.Kind,
		Type:  w.Type,
		Count: uint64(w.Src.Len),
		Shape: w.Shape,
	}, nil
}
