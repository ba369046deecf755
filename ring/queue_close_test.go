package ring_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

func TestQueueCloseWithWork(t *testing.T) {
	onTransports(t, func(t *testing.T, l layout) {
		job := l.of(3).job(t)
		comms := job.Join(t)
		queues := newQueues(t, comms)
		ringtest.All(t, 3, func(rank int) error {
			ticket, err := ring.QueueBarrier(queues[rank], fmt.Sprint("of rank ", rank))
			if err != nil {
				return err
			}
			if rank != 1 {
				return wantPeer(ticket.Wait(ctx), 1)
			}
			if err := queues[1].Close(); err != nil {
				return err
			}
			if err := ticket.Wait(ctx); err != ring.ErrClosed {
				return fmt.Errorf("what waited: %v, want ErrClosed", err)
			}
			if _, err := ring.QueueBarrier(queues[1], "later"); err != ring.ErrClosed {
				return fmt.Errorf("later: %v, want ErrClosed", err)
			}
			return queues[1].Close()
		})
		// Only the queue has ended.
		ringtest.All(t, 3, func(rank int) error { return ring.Barrier(ctx, comms[rank]) })
		lost := job.Losses()
		check.That(t, len(lost) == 0, "lost: %v", lost)
		left := job.Leaves()
		slices.SortFunc(left, func(a, b ringtest.Left) int { return a.By - b.By })
		want := []ringtest.Left{{By: 0, Rank: 1, Cause: "it has closed its queue"},
			{By: 2, Rank: 1, Cause: "it has closed its queue"}}
		check.That(t, slices.Equal(left, want), "left: %v, want %v", left, want)
	})
}

// A rank that waits for the others, in any way, learns that another has left, or that its own queue
// was closed, and so does what it does later.
func TestQueueWaitsEnd(t *testing.T) {
	must.HaveTime(t)
	barrier := ring.Collective{Kind: ring.KindBarrier}
	waits := map[string]func(q *ring.Queue) error{
		"a ticket": submit(barrier),
		"Do":       func(q *ring.Queue) error { return q.Do(ctx, "x", barrier) },
		"Join": func(q *ring.Queue) error {
			j, err := q.Join()
			if err == nil {
				_, err = j.Wait(ctx)
			}
			return err
		},
	}
	ends := map[string]func(comms []*ring.Comm, queues []*ring.Queue) error{
		"its queue":         func(_ []*ring.Comm, queues []*ring.Queue) error { return queues[0].Close() },
		"the other's queue": func(_ []*ring.Comm, queues []*ring.Queue) error { return queues[1].Close() },
		"the other's Comm":  func(comms []*ring.Comm, _ []*ring.Queue) error { return comms[1].Close() },
	}
	onTransports(t, func(t *testing.T, l layout) {
		for what, wait := range waits {
			for closed, end := range ends {
				comms := l.of(2).job(t).Join(t)
				queues := newQueues(t, comms)
				ended := make(chan error, 1)
				go func() { ended <- wait(queues[0]) }()
				time.Sleep(10 * time.Millisecond) // the wait has begun, or not
				must.OK(t, end(comms, queues))
				for _, err := range []error{<-ended, wait(queues[0])} {
					if closed == "its queue" {
						check.That(t, errors.Is(err, ring.ErrClosed), "%s: %v, want ErrClosed", what, err)
					} else {
						check.OK(t, wantPeer(err, 1), what, "when", closed, "is closed")
					}
				}
			}
		}
	})
}

// A rank that needs its queue no more hears of another's end only when it submits again.
func TestQueueIsNotMissed(t *testing.T) {
	job := ringtest.NewJob(t, 2)
	queues := newQueues(t, job.Join(t))
	must.OK(t, queues[1].Close())
	left := job.Leaves()
	check.That(t, len(left) == 0, "nobody has missed it, and it was reported: %v", left)
	for range 2 {
		ticket, err := ring.QueueBarrier(queues[0], "late")
		if err == nil { // the queue's end comes a moment later
			err = ticket.Wait(ctx)
		}
		check.OK(t, wantPeer(err, 1), "late")
	}
	left = job.Leaves()
	check.That(t, len(left) == 1 && left[0].By == 0 && left[0].Rank == 1, "reported: %v", left)
}

func TestQueueCloseIsClean(t *testing.T) {
	onTransports(t, func(t *testing.T, l layout) {
		job := l.of(4).job(t)
		comms := job.Join(t)
		for i := range 8 {
			queues := newQueues(t, comms)
			ringtest.All(t, 4, func(rank int) error {
				if err := sumOf(i * 1000)(queues[rank]); err != nil {
					return err
				}
				return queues[rank].Close()
			})
		}
		lost := job.Losses()
		left := job.Leaves()
		check.That(t, len(lost)+len(left) <= 0, "lost: %v, left: %v", lost, left)
	})
}

// Who has closed a queue of a part is named by its number in the job.
func TestQueueOfAPartNamesTheClosedRank(t *testing.T) {
	comms := ringtest.NewJob(t, 3).Join(t)
	parts := split(t, comms, func(c *ring.Comm) (color, key int) { return min(c.Rank(), 1) - 1, 0 })
	queues := newQueues(t, parts[1:])
	ticket := must.Get(ring.QueueBarrier(queues[0], "alone"))(t)
	must.OK(t, queues[1].Close())
	check.OK(t, wantPeer(ticket.Wait(ctx), 2))
}

// trainUntilItFails is the role of a rank that trains. It prints a line when it has begun, one for
// each stall, and a verdict at the end.
func trainUntilItFails(string) error {
	c, err := ring.Init(ctx)
	if err != nil {
		return err
	}
	q, err := ring.NewQueue(ctx, c, ring.WithStall(100*time.Millisecond, func(text string) {
		fmt.Println("stall:", text)
	}))
	if err != nil {
		return err
	}
	return errors.Join(untilItFails(newStepper(q, 50, 1000).step), q.Close(), c.Close())
}

// A rank that is stopped is reported as a stall, and one that is killed ends the queues.
func TestQueueKilledRank(t *testing.T) {
	onTransports(t, func(t *testing.T, l layout) {
		const size = 3
		const victim = 1
		job := l.of(size).job(t)
		var ranks []*lab.Program
		for rank := range size {
			ranks = append(ranks, start(t, job.Environ(rank), "queue "))
		}
		allRunning(t, ranks)
		must.OK(t, ranks[victim].Process.Signal(syscall.SIGSTOP))
		for rank, p := range ranks {
			if rank == victim {
				continue
			}
			line, err := p.Hear("stall:")
			check.That(t, err == nil && (strings.Contains(line, "waits for the other ranks") ||
				strings.Contains(line, "has waited")), "rank %d reports %q, %v", rank, line, err)
		}
		kill(t, ranks, victim, 2*failureDeadline, func() {})
	})
}
