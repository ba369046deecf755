package ring_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

func TestQueueCloseWithWork(t *testing.T) {
	onTransports(t, func(t *testing.T, l layout) {
		job := l.of(3).job(t)
		comms := job.Join(t)
		queues := newQueues(t, comms)
		err := ringtest.Each(3, func(rank int) error {
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
		if err != nil {
			t.Error(err)
		}
		// Only the queue has ended.
		if err := ringtest.Each(3, func(rank int) error { return ring.Barrier(ctx, comms[rank]) }); err != nil {
			t.Error(err)
		}
		if lost := job.Losses(); len(lost) > 0 {
			t.Errorf("lost: %v", lost)
		}
		left := job.Leaves()
		slices.SortFunc(left, func(a, b ringtest.Left) int { return a.By - b.By })
		if want := []ringtest.Left{{By: 0, Rank: 1, Cause: "it has closed its queue"},
			{By: 2, Rank: 1, Cause: "it has closed its queue"}}; !slices.Equal(left, want) {
			t.Errorf("left: %v, want %v", left, want)
		}
	})
}

// A rank that needs its queue no more hears of another's end only when it submits again.
func TestQueueIsNotMissed(t *testing.T) {
	job := ringtest.NewJob(t, 2)
	queues := newQueues(t, job.Join(t))
	if err := queues[1].Close(); err != nil {
		t.Fatal(err)
	}
	if left := job.Leaves(); len(left) > 0 {
		t.Errorf("nobody has missed it, and it was reported: %v", left)
	}
	for range 2 {
		ticket, err := ring.QueueBarrier(queues[0], "late")
		if err == nil { // the queue's end comes a moment later
			err = ticket.Wait(ctx)
		}
		if err := wantPeer(err, 1); err != nil {
			t.Errorf("late: %v", err)
		}
	}
	if left := job.Leaves(); len(left) != 1 || left[0].By != 0 || left[0].Rank != 1 {
		t.Errorf("reported: %v", left)
	}
}

func TestQueueCloseIsClean(t *testing.T) {
	onTransports(t, func(t *testing.T, l layout) {
		job := l.of(4).job(t)
		comms := job.Join(t)
		for i := range 8 {
			queues := newQueues(t, comms)
			if err := ringtest.Each(4, func(rank int) error {
				if err := sumOf(i * 1000)(queues[rank]); err != nil {
					return err
				}
				return queues[rank].Close()
			}); err != nil {
				t.Fatal(err)
			}
		}
		lost := job.Losses()
		left := job.Leaves()
		if len(lost)+len(left) > 0 {
			t.Errorf("lost: %v, left: %v", lost, left)
		}
	})
}

// Who has closed a queue of a part is named by its number in the job.
func TestQueueOfAPartNamesTheClosedRank(t *testing.T) {
	comms := ringtest.NewJob(t, 3).Join(t)
	parts := split(t, comms, func(c *ring.Comm) (color, key int) { return min(c.Rank(), 1) - 1, 0 })
	queues := newQueues(t, parts[1:])
	ticket, err := ring.QueueBarrier(queues[0], "alone")
	if err != nil {
		t.Fatal(err)
	}
	if err := queues[1].Close(); err != nil {
		t.Fatal(err)
	}
	if err := wantPeer(ticket.Wait(ctx), 2); err != nil {
		t.Error(err)
	}
}

func TestQueueLeavesNothingBehind(t *testing.T) {
	onTransports(t, func(t *testing.T, l layout) {
		files := func() int {
			entries, err := os.ReadDir("/proc/self/fd")
			if err != nil {
				lab.Skip(t, "no /proc here")
			}
			return len(entries)
		}
		round := func(i int) {
			job := l.of(3).job(t)
			comms := job.Join(t)
			queues := make([]*ring.Queue, 3)
			err := ringtest.Each(3, func(rank int) (err error) {
				if queues[rank], err = ring.NewQueue(ctx, comms[rank], ring.WithStall(0, func(string) {})); err != nil {
					return err
				}
				return sumOf(5)(queues[rank])
			})
			if err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 { // else the queues end with their comms
				closeQueues(t, queues)
			}
			ringtest.Each(3, func(rank int) error { return comms[rank].Close() })
			job.Close()
		}
		round(0)
		round(1)
		goroutines := runtime.NumGoroutine()
		open := files()
		for i := range 6 {
			round(i)
		}
		deadline := time.Now().Add(5 * time.Second) // net/http ends its goroutines a little later
		for runtime.NumGoroutine() > goroutines || files() > open {
			if time.Now().After(deadline) {
				t.Fatalf("%d goroutines and %d files, were %d and %d", runtime.NumGoroutine(), files(), goroutines,
					open)
			}
			runtime.Gosched()
		}
	})
}

// queueChildEnv makes TestQueueChild act as one rank of TestQueueKilledRank.
const queueChildEnv = "RING_TEST_QUEUE_CHILD"

// TestQueueChild is a rank in a process of its own: it trains until that fails. It prints a
// line when it has begun, one for each stall, and a verdict at the end.
func TestQueueChild(t *testing.T) {
	if os.Getenv(queueChildEnv) == "" {
		return
	}
	c, err := ring.Init(ctx)
	if err != nil {
		t.Fatal(err)
	}
	q, err := ring.NewQueue(ctx, c, ring.WithStall(100*time.Millisecond, func(text string) {
		fmt.Println("stall:", text)
	}))
	if err != nil {
		t.Fatal(err)
	}
	s := newStepper(q, 50, 1000)
	err = untilItFails(s.step)
	if err := errors.Join(err, q.Close(), c.Close()); err != nil {
		t.Error(err)
	}
}

// A rank that is stopped is reported as a stall, and one that is killed ends the queues.
func TestQueueKilledRank(t *testing.T) {
	onTransports(t, func(t *testing.T, l layout) {
		const size = 3
		const victim = 1
		job := l.of(size).job(t)
		ranks := make([]*exec.Cmd, size)
		outputs := make([]*bufio.Scanner, size)
		for rank := range size {
			ranks[rank], outputs[rank] = startChild(t, job, rank, queueChildEnv, "-test.run=^TestQueueChild$")
		}
		for _, out := range outputs {
			scanFor(t, out, "running")
		}
		if err := ranks[victim].Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for rank, out := range outputs {
			if rank != victim {
				if line := scanFor(t, out, "stall:"); !strings.Contains(line, "waits for the other ranks") &&
					!strings.Contains(line, "has waited") {
					t.Errorf("rank %d reports %q", rank, line)
				}
			}
		}
		kill(t, ranks, outputs, victim, 2*failureDeadline, func() {})
	})
}
