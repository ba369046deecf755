package ring_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// submission of the tensor "x" in a test, and its wait.
type submission func(q *ring.Queue) error

func sumOf(n int) submission {
	return func(q *ring.Queue) error {
		buf := make([]float32, n)
		t, err := ring.QueueAllReduce(q, "x", buf, buf, ring.Sum)
		if err != nil {
			return err
		}
		return t.Wait(ctx)
	}
}

func submit(w ring.Collective) submission {
	return func(q *ring.Queue) error {
		t, err := q.Submit("x", w)
		if err != nil {
			return err
		}
		return t.Wait(ctx)
	}
}

// partsOf is an allgather of n elements from this rank: the others may bring another number.
func partsOf(n int) submission {
	return func(q *ring.Queue) error {
		g, err := ring.QueueAllGather(q, "x", make([]float32, n))
		if err != nil {
			return err
		}
		_, _, err = g.Wait(ctx)
		return err
	}
}

// What ranks compare is the request that package negotiate makes of a call: its other fields are
// tested there.
func TestQueueMismatch(t *testing.T) {
	buf := func(n int) ring.Buffer { return ring.BufferOf(make([]float64, n)) }
	gather := func(n int) submission {
		return submit(collective(ring.KindAllGather, ring.Float32, 0, buf(3*n), buf(n)))
	}
	scatter := func(counts ...int) submission {
		return func(q *ring.Queue) error {
			// Which rank this is shows in the lengths that are right.
			for _, n := range counts {
				w := ring.Collective{
					Kind:   ring.KindReduceScatter,
					Type:   ring.Float32,
					Op:     ring.Sum,
					Dst:    buf(n),
					Src:    buf(6),
					Counts: counts,
				}
				if t, err := q.Submit("x", w); err == nil {
					return t.Wait(ctx)
				}
			}
			return errors.New("no length was right")
		}
	}
	shaped := func(kind ring.Kind, shape string) submission {
		w := ring.Collective{
			Kind:  kind,
			Type:  ring.Float32,
			Op:    ring.Sum,
			Dst:   buf(6),
			Src:   buf(6),
			Shape: shape,
		}
		if kind == ring.KindAllGather {
			w.Op = 0
			w.Src = buf(2)
		}
		return submit(w)
	}
	tests := map[string]struct {
		right, wrong         submission
		rightText, wrongText string
	}{
		"count": {sumOf(5), sumOf(6), "allreduce sum of 5 f32", "allreduce sum of 6 f32"},
		"parts": {gather(4), gather(5), `allgather of 4 f32 in shape "equal parts"`,
			`allgather of 5 f32 in shape "equal parts"`},
		"unlike": {gather(4), partsOf(4), `allgather of 4 f32 in shape "equal parts"`, "allgather of 4 f32"},
		"shape": {shaped(ring.KindAllReduce, "2x3"), shaped(ring.KindAllReduce, "3x2"),
			`allreduce sum of 6 f32 in shape "2x3"`,
			`allreduce sum of 6 f32 in shape "3x2"`},
		"parts' shape": {shaped(ring.KindAllGather, "2"), shaped(ring.KindAllGather, ""),
			`allgather of 2 f32 in shape "equal parts of 2"`,
			`allgather of 2 f32 in shape "equal parts"`},
		"counts": {scatter(1, 2, 3), scatter(3, 2, 1), "reducescatter sum of 6 f32 in shape",
			"reducescatter sum of 6 f32 in shape"},
	}
	onTransports(t, func(t *testing.T, l layout) {
		queues := newQueues(t, l.of(3).job(t).Join(t))
		for name, test := range tests {
			ringtest.All(t, 3, func(rank int) error {
				f := test.right
				if rank == 1 {
					f = test.wrong
				}
				err := f(queues[rank])
				m := new(ring.TensorMismatchError)
				if !errors.As(err, &m) || m.Name != "x" || m.Ranks[0] >= m.Ranks[1] {
					return fmt.Errorf("%s: error is %v, want a mismatch of x", name, err)
				}
				for i, said := range m.Said { // rank 1 and one other
					want := test.rightText
					if m.Ranks[i] == 1 {
						want = test.wrongText
					}
					if !strings.HasPrefix(said, want) ||
						!strings.Contains(err.Error(), fmt.Sprintf("rank %d submitted %s", m.Ranks[i], said)) {
						return fmt.Errorf("%s: error is %v, want one with %q of rank %d", name, err, want, m.Ranks[i])
					}
				}
				if m.Ranks[0] != 1 && m.Ranks[1] != 1 || m.Said[0] == m.Said[1] {
					return fmt.Errorf("%s: error is %v", name, err)
				}
				return nil
			})
			// The queue stays usable, also with this name.
			must.OK(t, ringtest.Each(3, func(rank int) error { return sumOf(7)(queues[rank]) }),
				"after a mismatch of", name)
		}
	})
}

func TestQueueArguments(t *testing.T) {
	queues := newQueues(t, ringtest.NewJob(t, 2).Join(t))
	q := queues[0]
	buf := make([]float32, 6)
	b := ring.BufferOf(buf)
	room := func([]int) ring.Buffer { return ring.Buffer{} }
	raw := func(w ring.Collective) error { _, err := q.Submit("x", w); return err }
	rawV := func(w ring.Collective) error { _, err := q.SubmitV("x", w, room); return err }
	reduce := collective(ring.KindAllReduce, ring.Float32, ring.Sum, b, b)
	roomless := func() error {
		_, err := q.SubmitV("x", ring.Collective{Kind: ring.KindAllGather, Type: ring.Float32, Src: b}, nil)
		return err
	}
	group := func(names ...string) error {
		_, err := q.SubmitGroup(nil, names, slices.Repeat([]ring.Collective{reduce}, 2))
		return err
	}
	nameless := func() error { _, err := ring.QueueBarrier(q, ""); return err }
	for want, err := range map[string]error{
		"a queue has no gather": raw(collective(ring.KindGather, ring.Float32, 0, b, b)),
		"a queue has no message": raw(ring.Collective{
			Kind: ring.KindMessage,
			Type: ring.Float32,
			Dst:  b,
			To:   -1,
			From: 1,
		}),
		"no op 0 of float32": raw(collective(ring.KindAllReduce, ring.Float32, 0, b, b)),
		"root 2 is not": raw(ring.Collective{
			Kind: ring.KindBroadcast,
			Type: ring.Float32,
			Dst:  b,
			Root: 2,
		}),
		"are for SubmitV": raw(ring.Collective{
			Kind:   ring.KindAllGather,
			Type:   ring.Float32,
			Dst:    b,
			Src:    ring.BufferOf(buf[:2]),
			Counts: []int{2, 4},
		}),
		"only allgather and alltoall": rawV(reduce),
		"leave them zero":             rawV(collective(ring.KindAllGather, ring.Float32, 0, b, b)),
		"no such type":                rawV(ring.Collective{Kind: ring.KindAllGather, Src: b}),
		"sends for 1 ranks": rawV(ring.Collective{
			Kind:  ring.KindAllToAll,
			Type:  ring.Float32,
			Src:   b,
			Sends: []int{6},
		}),
		"sends add up to 5": rawV(ring.Collective{
			Kind:  ring.KindAllToAll,
			Type:  ring.Float32,
			Src:   b,
			Sends: []int{3, 2},
		}),
		"no room for the result":          roomless(),
		"without a name":                  nameless(),
		`tensor "same" was submitted aga`: group("same", "same"),
		"3 names and 2":                   group("a", "b", "c"),
	} {
		check.That(t, err != nil && strings.Contains(err.Error(), want), "error is %v, want one with %q", err, want)
	}
	// Nothing was submitted.
	ringtest.All(t, 2, func(rank int) error { return sumOf(3)(queues[rank]) })
}

func TestQueueDuplicate(t *testing.T) {
	queues := newQueues(t, ringtest.NewJob(t, 2).Join(t))
	first, err := ring.QueueBarrier(queues[0], "x")
	must.OK(t, err)
	var duplicate *ring.DuplicateError
	_, err = ring.QueueBarrier(queues[0], "x")
	check.That(t, errors.As(err, &duplicate) && duplicate.Name == "x", "error is %v, want a DuplicateError", err)
	check.That(t, !first.Done(), "done, and rank 1 has not come")
	must.Get(ring.QueueBarrier(queues[1], "x"))(t)
	err = first.Wait(ctx)
	check.That(t, err == nil && first.Done() && first.Wait(ctx) == nil, "wait: %v, done: %v", err, first.Done())
	zero := (ring.Ticket{})
	check.That(t, zero.Done() && zero.Wait(ctx) == nil, "the zero Ticket is not over")
}

// Outcomes that nobody has waited for yet stay what they are when the name comes again.
func TestQueueTicketsKeepTheirOutcome(t *testing.T) {
	queues := newQueues(t, ringtest.NewJob(t, 2).Join(t))
	var tickets []ring.Ticket
	for i := range 3 {
		ringtest.All(t, 2, func(rank int) error {
			buf := make([]float32, 2+rank*(i%2))
			ticket, err := ring.QueueAllReduce(queues[rank], "x", buf, buf, ring.Sum)
			if rank == 0 {
				tickets = append(tickets, ticket)
				for !ticket.Done() {
					runtime.Gosched()
				}
				return err
			}
			_ = ticket.Wait(ctx)
			return err
		})
	}
	for i, ticket := range tickets {
		err := ticket.Wait(ctx)
		check.That(t, errors.As(err, new(*ring.TensorMismatchError)) == (i == 1), "use %d of the name: %v", i, err)
	}
}

func TestQueueWaitNamesTheMissing(t *testing.T) {
	queues := newQueues(t, ringtest.NewJob(t, 3).Join(t), ring.WithStall(time.Millisecond, func(string) {}))
	ticket := must.Get(ring.QueueBarrier(queues[1], "x"))(t)
	for {
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		err := ticket.Wait(short)
		cancel()
		must.That(t, errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), `tensor "x"`),
			"error is %v", err)
		if strings.Contains(err.Error(), "waits for ranks 0, 2") {
			break
		}
	}
	for _, rank := range []int{0, 2} {
		must.Get(ring.QueueBarrier(queues[rank], "x"))(t)
	}
	check.OK(t, ticket.Wait(ctx), "the wait after")
}

func TestQueueOptionsMustAgree(t *testing.T) {
	comms := ringtest.NewJob(t, 2).Join(t)
	for want, opts := range map[string][2]ring.QueueOption{
		"give all ranks the same options": {ring.WithFusion(5), ring.WithFusion(6)},
		"names":                           {ring.WithCache(5), ring.WithCache(6)},
		"-1":                              {ring.WithCache(5), ring.WithCache(-1)},
	} {
		ringtest.All(t, 2, func(rank int) error {
			q, err := ring.NewQueue(ctx, comms[rank], opts[rank])
			if err == nil || q != nil {
				return fmt.Errorf("%s: a queue, and error %v", want, err)
			}
			if wrong := want == "-1" && rank == 0; wrong != strings.Contains(err.Error(), "options of rank 1 on "+
				ringtest.Host+" are wrong") ||
				!wrong && !strings.Contains(err.Error(), want) {
				return fmt.Errorf("error is %v, want one with %q", err, want)
			}
			return nil
		})
	}
}
