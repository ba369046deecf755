package ring_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// uneven is a job in which each rank has data for another number of steps.
type uneven struct {
	steps []int // by rank
	sizes []int // of tensors
}

// step submits all tensors of one step in an order of the rank's own, and waits for them.
func (u *uneven) step(q *ring.Queue, rank, step int, random *rand.Rand) error {
	total := 0 // of those that have data
	for r, steps := range u.steps {
		if step < steps {
			total += r + 1
		}
	}
	size := len(u.steps)
	var checks []func() error
	for _, i := range random.Perm(len(u.sizes)) {
		name := fmt.Sprint("weight/", i)
		op := ring.Sum
		n := u.sizes[i]
		if i%3 == 0 {
			op = ring.Avg
		}
		var ticket ring.Ticket
		var err error
		if i%2 == 0 {
			src := slices.Repeat([]float32{float32(size * (rank + 1))}, n)
			dst := make([]float32, n)
			want := float32(size * total)
			if op == ring.Avg {
				want /= float32(size)
			}
			ticket, err = ring.QueueAllReduce(q, name, dst, src, op)
			checks = append(checks, func() error {
				return match(name, ticket.Wait(ctx), dst, slices.Repeat([]float32{want}, n))
			})
		} else {
			buf := slices.Repeat([]int64{int64(rank + 1)}, n)
			ticket, err = ring.QueueAllReduce(q, name, buf, buf, ring.Sum)
			checks = append(checks, func() error {
				return match(name, ticket.Wait(ctx), buf, slices.Repeat([]int64{int64(total)}, n))
			})
		}
		if err != nil {
			return err
		}
	}
	barrier, err := ring.QueueBarrier(q, "end of step")
	if err != nil {
		return err
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
	}
	return barrier.Wait(ctx)
}

// joinAll has a rank join, and checks who the last was.
func joinAll(q *ring.Queue, want int) error {
	j, err := q.Join()
	if err != nil {
		return err
	}
	last, err := j.Wait(ctx)
	if err == nil && (last != want || !j.Done()) {
		err = fmt.Errorf("rank %d was the last to join, want %d", last, want)
	}
	return err
}

// joinRest has two ranks join that are the last to, whichever of them is the last.
func joinRest(queues ...*ring.Queue) (last int, err error) {
	lasts := make([]int, len(queues))
	err = ringtest.Each(len(queues), func(i int) error {
		j, err := queues[i].Join()
		if err == nil {
			lasts[i], err = j.Wait(ctx)
		}
		return err
	})
	if err == nil && slices.Min(lasts) != slices.Max(lasts) {
		err = fmt.Errorf("ranks %v were the last to join", lasts)
	}
	return lasts[0], err
}

func TestQueueJoin(t *testing.T) {
	must.HaveTime(t)
	onTransports(t, func(t *testing.T, l layout) {
		for size, opts := range map[int][]ring.QueueOption{1: nil, 3: nil, 4: {ring.WithFusion(0), ring.WithCache(3)}} {
			queues := newQueues(t, l.of(size).job(t).Join(t), opts...)
			u := &uneven{sizes: []int{1, 1000, 0, 7, 100, 40_000, 400, 0, 33, 600_000}} // the last one in two pieces
			for round := range 2 {
				longest := round % size
				u.steps = nil
				for rank := range size {
					u.steps = append(u.steps, (rank-longest+size)%size)
				}
				want := slices.Index(u.steps, slices.Max(u.steps))
				err := ringtest.Each(size, func(rank int) error {
					random := rand.New(rand.NewPCG(uint64(rank), 3))
					for step := range u.steps[rank] {
						if err := u.step(queues[rank], rank, step, random); err != nil {
							return errors.Join(err, queues[rank].Close()) // else the others wait for it
						}
					}
					return joinAll(queues[rank], want)
				})
				must.OK(t, err, size, "ranks, round", round)
			}
			// The queues are as they were.
			must.OK(t, train(queues, mixed(30), 1), size, "ranks")
		}
	})
}

// What ranks that have joined cannot take part in fails on those who submitted it.
func TestCallsThatNeedJoinedRanksFail(t *testing.T) {
	f32 := func(n int) ring.Buffer { return ring.BufferOf(make([]float32, n)) }
	call := func(kind ring.Kind, op ring.Op, dst, src int) submission {
		return submit(collective(kind, ring.Float32, op, f32(dst), f32(src)))
	}
	tests := map[string]submission{
		"broadcast of 5 f32 from rank 1": submit(ring.Collective{
			Kind: ring.KindBroadcast,
			Type: ring.Float32,
			Dst:  f32(5),
			Root: 1,
		}),
		"allreduce max of 5 f32":          call(ring.KindAllReduce, ring.Max, 5, 5),
		"allreduce prod of 5 f32":         call(ring.KindAllReduce, ring.Prod, 5, 5),
		"reducescatter sum of 12 f32":     call(ring.KindReduceScatter, ring.Sum, 3, 12),
		"alltoall of 4 f32 in shape":      call(ring.KindAllToAll, 0, 4, 4),
		"allgather of 4 f32 cannot run, ": partsOf(4),
	}
	onTransports(t, func(t *testing.T, l layout) {
		queues := newQueues(t, l.of(4).job(t).Join(t))
		var joinings []*ring.Joining
		for _, rank := range []int{1, 3} {
			j, err := queues[rank].Join()
			must.OK(t, err)
			joinings = append(joinings, j)
			_, err = queues[rank].Join()
			check.Equal(t, err, ring.ErrJoined, "joins twice")
			check.Equal(t, sumOf(3)(queues[rank]), ring.ErrJoined, "submits after it has joined")
		}
		stay := func(f submission) error {
			return ringtest.Each(2, func(i int) error { return f(queues[2*i]) })
		}
		for want, f := range tests {
			err := stay(func(q *ring.Queue) error {
				err := f(q)
				j := new(ring.JoinedError)
				if !errors.As(err, &j) || j.Name != "x" || !slices.Equal(j.Ranks, []int{1, 3}) ||
					!strings.Contains(err.Error(), `tensor "x": `+want) {
					return fmt.Errorf("error is %v, want one about ranks 1 and 3 with %q", err, want)
				}
				return nil
			})
			check.OK(t, err)
			must.OK(t, stay(sumOf(7)), "after", want)
		}
		short, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := joinings[0].Wait(short); joinings[0].Done() || !errors.Is(err, context.Canceled) ||
			!strings.Contains(err.Error(), "waits for ranks 0, 2 to join") {
			t.Errorf("a wait that was cancelled: %v", err)
		}
		last, err := joinRest(queues[0], queues[2])
		for _, j := range joinings {
			theirs, jerr := j.Wait(ctx)
			err = errors.Join(err, jerr)
			check.That(t, theirs == last && last%2 != 1, "rank %d was the last to join, or rank %d", theirs, last)
		}
		check.OK(t, err)
		check.OK(t, train(queues, mixed(20), 1), "after all have joined")
	})
}

// Timeline and stall report of ranks that have joined, and of those that have not.
func TestQueueJoinIsSeen(t *testing.T) {
	lines := make(chan string, 10000)
	queues := newQueues(t, ringtest.NewJob(t, 4).Join(t), ring.WithStall(80*time.Millisecond, func(text string) {
		lines <- text
	}))
	var text bytes.Buffer
	must.OK(t, queues[1].StartTimeline(&text, ring.TimelineOptions{}))
	for _, rank := range []int{1, 3} {
		must.Get(queues[rank].Join())(t)
	}
	first := ring.Collective{Kind: ring.KindBroadcast, Type: ring.Float32, Dst: ring.BufferOf(make([]float32, 1))}
	err := ringtest.Each(2, func(i int) error {
		if i == 1 {
			awaitLine(lines, `for rank 2 \(1 of 4 have submitted it, 2 joined\)`)
		}
		if err := sumOf(5)(queues[2*i]); err != nil {
			return err
		}
		if err := submit(first)(queues[2*i]); err == nil {
			return errors.New("a broadcast has run without ranks that have joined")
		}
		return nil
	})
	if _, jerr := joinRest(queues[0], queues[2]); err != nil || jerr != nil {
		t.Fatal(err, jerr)
	}
	closeQueues(t, queues)
	events := eventsOf(t, &text)
	reduce := "NEGOTIATE_ALLREDUCE 0 2 / ALLREDUCE QUEUE / RING_ALLREDUCE / / "
	broadcast := "NEGOTIATE_BROADCAST 0 2 / "
	other := strings.Replace(broadcast, "0 2", "2 0", 1)
	if got := phases(events, "x"); got != reduce+broadcast && got != reduce+other {
		t.Errorf("a tensor went through %q, want %q and %q", got, reduce, broadcast)
	}
}

// A rank that has joined needs little memory for a large tensor.
func TestQueueJoinMemory(t *testing.T) {
	const n = 16 << 20 // float32s
	queues := newQueues(t, ringtest.NewJob(t, 2).Join(t))
	buf := slices.Repeat([]float32{1}, n)
	j := must.Get(queues[1].Join())(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ticket, err := ring.QueueAllReduce(queues[0], "x", buf, buf, ring.Sum)
	must.OK(t, err)
	err = ticket.Wait(ctx)
	check.That(t, err == nil && slices.Min(buf) == 1 && slices.Max(buf) == 1, "%v, %v", err, head(buf))
	runtime.ReadMemStats(&after)
	got := after.TotalAlloc - before.TotalAlloc
	check.That(t, got <= 4*n/4, "%d bytes were allocated for a tensor of %d", got, 4*n)
	check.OK(t, joinAll(queues[0], 0))
	last, err := j.Wait(ctx)
	check.That(t, err == nil && last == 0, "rank %d was the last to join, %v", last, err)
}
