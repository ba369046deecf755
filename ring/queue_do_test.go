package ring_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// doSum makes an allreduce of n numbers, and checks it.
func doSum(ctx context.Context, q *ring.Queue, name string, rank, size, n int) error {
	buf := slices.Repeat([]float64{float64(rank + 1)}, n)
	b := ring.BufferOf(buf)
	err := q.Do(ctx, name, collective(ring.KindAllReduce, ring.Float64, ring.Sum, b, b))
	return match(name, err, buf, slices.Repeat([]float64{float64(size * (size + 1) / 2)}, n))
}

// Do alone, beside what is submitted, and from two goroutines, whose order differs between ranks.
func TestQueueDo(t *testing.T) {
	must.HaveTime(t)
	onTransports(t, func(t *testing.T, l layout) {
		const size = 3
		// With so short a limit an idle queue makes a cycle each ms, which Do may meet.
		queues := newQueues(t, l.of(size).job(t).Join(t), ring.WithStall(4*time.Millisecond, func(string) {}))
		many := func(name string, count int, pause time.Duration) error {
			return ringtest.Each(size, func(rank int) error {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				for i := range count {
					if i%10 == 7 {
						time.Sleep(time.Duration(rank) * pause)
					}
					c := context.Background()
					if i%5 == 4 {
						c = ctx
					}
					if err := doSum(c, queues[rank], name, rank, size, i); err != nil {
						return fmt.Errorf("%s, %d numbers: %w", name, i, err)
					}
				}
				return nil
			})
		}
		must.OK(t, many("alone", 100, 3*time.Millisecond))
		list := mixed(30)
		ringtest.All(t, 3, func(i int) error {
			if i == 0 {
				return train(queues, list, 4)
			}
			return many(fmt.Sprint("do ", i), 60, time.Millisecond)
		})
	})
}

func TestQueueDoFails(t *testing.T) {
	onTransports(t, func(t *testing.T, l layout) {
		comms := l.of(2).job(t).Join(t)
		queues := newQueues(t, comms)
		ringtest.All(t, 2, func(rank int) error {
			q := queues[rank]
			m := new(ring.TensorMismatchError)
			if err := doSum(ctx, q, "x", rank, 2, 3+rank); !errors.As(err, &m) {
				return fmt.Errorf("unlike lengths: %w", err)
			}
			if err := q.Do(ctx, "x", ring.Collective{Kind: ring.KindGather}); err == nil {
				return errors.New("a queue has made a gather")
			}
			if rank == 1 {
				return joinAll(q, 0)
			}
			err := q.Do(ctx, "x", ring.Collective{Kind: ring.KindBroadcast, Type: ring.Bool,
				Dst: ring.BufferOf(make([]bool, 1))})
			if j := new(ring.JoinedError); !errors.As(err, &j) {
				return fmt.Errorf("a broadcast without a rank that has joined: %w", err)
			}
			return joinAll(q, 0)
		})
		// A wait for a rank that does not come ends with its context.
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		goOn := queues[1].Stop()
		check.Error(doSum(short, queues[0], "late", 0, 2, 1)).Is(t, context.DeadlineExceeded, "after its context")
		goOn()
		check.OK(t, doSum(ctx, queues[1], "late", 1, 2, 1))
	})
}

// SubmitHere is over when it returns if the other ranks come too, and comes back to be waited for
// if they do not.
func TestQueueSubmitHere(t *testing.T) {
	must.HaveTime(t)
	queues := newQueues(t, ringtest.NewJob(t, 2).Join(t))
	sum := func(rank int) (ring.Ticket, []float32, error) {
		x := []float32{float32(rank + 1)}
		b := ring.BufferOf(x)
		ticket, err := queues[rank].SubmitHere("x", collective(ring.KindAllReduce, ring.Float32, ring.Sum, b, b))
		return ticket, x, err
	}
	late, x, err := sum(0)
	must.That(t, err == nil && !late.Done(), "without rank 1 it is over: %v, %v", late.Done(), err)
	if _, _, err := sum(0); !errors.As(err, new(*ring.DuplicateError)) {
		t.Fatalf("the name in flight: %v", err)
	}
	ticket, y, err := sum(1)
	if err := errors.Join(err, ticket.Wait(ctx), late.Wait(ctx)); err != nil || x[0] != 3 || y[0] != 3 {
		t.Fatalf("%v and %v, %v", x, y, err)
	}
	over := 0
	err = ringtest.Each(2, func(rank int) error {
		for range 100 {
			ticket, x, err := sum(rank)
			if rank == 0 && ticket.Done() {
				over++
			}
			if err := errors.Join(err, ticket.Wait(ctx)); err != nil || x[0] != 3 {
				return fmt.Errorf("%v, %w", x, err)
			}
		}
		return nil
	})
	must.That(t, err == nil && over != 0, "%d of 100 were over at once, %v", over, err)
}

// A job fails while Do makes a cycle: the queue's goroutine does not end the tensor under its
// hands.
func TestQueueEndsAfterDo(t *testing.T) {
	comms := ringtest.NewJob(t, 2).Join(t)
	q := newQueues(t, comms)[0]
	through := q.Cycling() // as Do is
	ticket := must.Get(ring.QueueBarrier(q, "in its hands"))(t)
	closed := make(chan error, 1)
	go func() { closed <- comms[0].Close() }()
	time.Sleep(200 * time.Millisecond)
	check.That(t, !ticket.Done(), "the tensor was ended while it was worked on")
	through()
	check.Error(ticket.Wait(ctx)).Is(t, ring.ErrClosed, "the tensor ended with")
	check.OK(t, <-closed)
}
