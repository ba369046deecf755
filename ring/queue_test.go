package ring_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// newQueues makes a queue on each comm. They are closed when the test ends.
func newQueues(t testing.TB, comms []*ring.Comm, opts ...ring.QueueOption) []*ring.Queue {
	t.Helper()
	queues := make([]*ring.Queue, len(comms))
	ringtest.All(t, len(comms), func(rank int) (err error) {
		queues[rank], err = ring.NewQueue(ctx, comms[rank], opts...)
		return err
	})
	t.Cleanup(func() { closeQueues(t, queues) })
	return queues
}

func closeQueues(t testing.TB, queues []*ring.Queue) {
	t.Helper()
	check.OK(t, ringtest.Each(len(queues), func(rank int) error { return queues[rank].Close() }), "close")
}

// named is one tensor of a test. Submit gives it to a queue and returns what waits for it
// and checks it.
type named struct {
	name   string
	submit func(q *ring.Queue, rank, size, step int) (check func() error, err error)
}

type number interface {
	float32 | float64 | int8 | uint8 | int16 | int32 | int64 | uint64
}

// value is element i of a rank's tensor: small, so that all sums are exact.
func value[T number](rank, size, step, i int, op ring.Op) T {
	v := T((rank+step+i)%3 + 1)
	if op == ring.Avg {
		v *= T(size)
	}
	return v
}

// combined is what op makes of element i of all ranks.
func combined[T number](size, step, i int, op ring.Op) T {
	result := value[T](0, size, step, i, op)
	for rank := 1; rank < size; rank++ {
		switch v := value[T](rank, size, step, i, op); op {
		case ring.Sum, ring.Avg:
			result += v
		case ring.Min:
			result = min(result, v)
		case ring.Max:
			result = max(result, v)
		case ring.Prod:
			result *= v
		}
	}
	if op == ring.Avg {
		result /= T(size)
	}
	return result
}

func filled[T number](n int, f func(i int) T) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = f(i)
	}
	return s
}

// match checks what has come out of a tensor, after its ticket.
func match[T number](name string, err error, got, want []T) error {
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("got %v, want %v", head(got), head(want))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func head[T any](s []T) []T { return s[:min(len(s), 8)] }

// tensorOf makes a tensor of n elements, of the kind and operation that i stands for.
func tensorOf[T number](name string, i, n int) named {
	op := ops[i/7%len(ops)]
	t := named{name: name}
	t.submit = func(q *ring.Queue, rank, size, step int) (func() error, error) {
		own := filled(n, func(i int) T { return value[T](rank, size, step, i, op) })
		sum := filled(n, func(i int) T { return combined[T](size, step, i, op) })
		dst := make([]T, n)
		ticket := ring.Ticket{}
		err := error(nil)
		switch i % 7 {
		case 0, 1:
			ticket, err = ring.QueueAllReduce(q, name, dst, own, op)
			return func() error { return match(name, ticket.Wait(ctx), dst, sum) }, err
		case 2:
			ticket, err = ring.QueueAllReduce(q, name, own, own, op)
			return func() error { return match(name, ticket.Wait(ctx), own, sum) }, err
		case 3:
			root := i / 7 % size
			ticket, err = ring.QueueBroadcast(q, name, own, root)
			want := filled(n, func(i int) T { return value[T](root, size, step, i, op) })
			return func() error { return match(name, ticket.Wait(ctx), own, want) }, err
		case 4:
			n := n / size
			ticket, err = ring.QueueReduceScatter(q, name, dst[:n], own[:n*size], op)
			return func() error { return match(name, ticket.Wait(ctx), dst[:n], sum[n*rank:][:n]) }, err
		case 5:
			return gatherOf(q, name, own, rank, size, step, op)
		}
		return exchangeOf(q, name, own, i, rank, size, step, op)
	}
	return t
}

// gatherOf brings a part that is as long as the rank and the step say.
func gatherOf[T number](q *ring.Queue, name string, own []T, rank, size, step int, op ring.Op) (func() error, error) {
	length := func(rank int) int { return len(own) * ((rank + step) % 3) / 2 % (len(own) + 1) }
	var want []T
	var lengths []int
	for r := range size {
		lengths = append(lengths, length(r))
		want = append(want, filled(length(r), func(i int) T { return value[T](r, size, step, i, op) })...)
	}
	g, err := ring.QueueAllGather(q, name, own[:length(rank)])
	return func() error {
		all, counts, err := g.Wait(ctx)
		if err == nil && !slices.Equal(counts, lengths) {
			err = fmt.Errorf("%v elements from each rank, want %v", counts, lengths)
		}
		return match(name, err, all, want)
	}, err
}

// exchangeOf is an alltoall: every second one of equal parts, the others of parts of
// 0, 1 or 2 elements. Or it is an allgather of equal parts.
func exchangeOf[T number](q *ring.Queue, name string, own []T, i, rank, size, step int, op ring.Op) (func() error,
	error) {
	n := len(own) / size
	switch i / 7 % 3 {
	case 0:
		dst := make([]T, n*size)
		want := make([]T, 0, n*size)
		for r := range size {
			want = append(want, filled(n, func(i int) T { return value[T](r, size, step, rank*n+i, op) })...)
		}
		ticket, err := ring.QueueAllToAll(q, name, dst, own[:n*size])
		return func() error { return match(name, ticket.Wait(ctx), dst, want) }, err
	case 1:
		dst := make([]T, len(own)*size)
		want := make([]T, 0, len(own)*size)
		for r := range size {
			want = append(want, filled(len(own), func(i int) T { return value[T](r, size, step, i, op) })...)
		}
		ticket, err := ring.QueueAllGatherInto(q, name, dst, own)
		return func() error { return match(name, ticket.Wait(ctx), dst, want) }, err
	}
	length := func(from, to int) int { return (from + 2*to + step) % 3 }
	var sends, receives []int
	var src, want []T
	for r := range size {
		sends = append(sends, length(rank, r))
		receives = append(receives, length(r, rank))
		src = append(src, filled(length(rank, r), func(int) T { return T(10*rank + r) })...)
		want = append(want, filled(length(r, rank), func(int) T { return T(10*r + rank) })...)
	}
	g, err := ring.QueueAllToAllV(q, name, src, sends)
	return func() error {
		all, counts, err := g.Wait(ctx)
		if err == nil && !slices.Equal(counts, receives) {
			err = fmt.Errorf("%v elements from each rank, want %v", counts, receives)
		}
		return match(name, err, all, want)
	}, err
}

// halves are sums of 1 in the half precisions, and of truth.
func halves(n int) []named {
	ones := func(name string, submit func(q *ring.Queue, rank, size int) (ring.Ticket, func() bool, error)) named {
		return named{name, func(q *ring.Queue, rank, size, _ int) (func() error, error) {
			ticket, right, err := submit(q, rank, size)
			return func() error {
				if err := ticket.Wait(ctx); err != nil || right() {
					return err
				}
				return fmt.Errorf("%s: wrong values", name)
			}, err
		}}
	}
	f16 := []ring.F16{0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500} // 0, 1, 2, 3, 4, 5
	bf16 := []ring.BF16{0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0}
	return []named{
		ones("f16", func(q *ring.Queue, rank, size int) (ring.Ticket, func() bool, error) {
			buf := slices.Repeat(f16[1:2], n)
			ticket, err := ring.QueueAllReduce(q, "f16", buf, buf, ring.Sum)
			return ticket, func() bool { return slices.Equal(buf, slices.Repeat(f16[size:size+1], n)) }, err
		}),
		ones("bf16", func(q *ring.Queue, rank, size int) (ring.Ticket, func() bool, error) {
			buf := slices.Repeat(bf16[1:2], n)
			ticket, err := ring.QueueAllReduce(q, "bf16", buf, buf, ring.Sum)
			return ticket, func() bool { return slices.Equal(buf, slices.Repeat(bf16[size:size+1], n)) }, err
		}),
		ones("bool", func(q *ring.Queue, rank, size int) (ring.Ticket, func() bool, error) {
			buf := slices.Repeat([]bool{rank == size-1, false}, n)
			ticket, err := ring.QueueAllReduce(q, "bool", buf, buf, ring.BOr)
			return ticket, func() bool { return slices.Equal(buf, slices.Repeat([]bool{true, false}, n)) }, err
		}),
		ones("barrier", func(q *ring.Queue, rank, size int) (ring.Ticket, func() bool, error) {
			ticket, err := ring.QueueBarrier(q, "barrier")
			return ticket, func() bool { return true }, err
		}),
	}
}

// mixed are count tensors of all kinds, types, operations and sizes.
func mixed(count int) []named {
	list := halves(1001)
	random := rand.New(rand.NewPCG(11, 12))
	makers := []func(name string, i, n int) named{
		tensorOf[float64],
		tensorOf[int8],
		tensorOf[uint8],
		tensorOf[int16],
		tensorOf[int32],
		tensorOf[int64],
		tensorOf[uint64],
		tensorOf[float32],
	}
	for i := len(list); i < count; i++ {
		n := []int{0, 1, 5, 16, 100, 500, 1000, 1000 + random.IntN(2000)}[random.IntN(8)]
		if i%50 == 49 {
			n = 40000
		}
		name := fmt.Sprintf("layer/%d/weight", i)
		maker := makers[random.IntN(len(makers))]
		list = append(list, maker(name, i, n))
	}
	return list
}

// train submits all tensors steps times on all ranks, each rank in its own order, and
// checks what comes out.
func train(queues []*ring.Queue, list []named, steps int) error {
	size := len(queues)
	return ringtest.Each(size, func(rank int) error {
		random := rand.New(rand.NewPCG(uint64(rank), 7))
		checks := make([]func() error, 0, len(list))
		for step := range steps {
			checks = checks[:0]
			for _, i := range random.Perm(len(list)) {
				check, err := list[i].submit(queues[rank], rank, size, step)
				if err != nil {
					return fmt.Errorf("step %d: %w", step, err)
				}
				checks = append(checks, check)
			}
			for _, i := range random.Perm(len(checks)) {
				if err := checks[i](); err != nil {
					return fmt.Errorf("step %d: %w", step, err)
				}
			}
		}
		return nil
	})
}

func TestQueueAnyOrder(t *testing.T) {
	must.HaveTime(t)
	onTransports(t, func(t *testing.T, l layout) {
		list := mixed(200)
		for size, opts := range map[int][]ring.QueueOption{
			1: nil, 2: nil, 3: {ring.WithFusion(10000), ring.WithCache(50)}, 4: {ring.WithFusion(0), ring.WithCache(0)},
			5: nil,
		} {
			job := l.of(size).job(t)
			if job.Transport != "tcp" && size%2 == 0 {
				continue // ranks that share memory take a core each while they wait
			}
			comms := job.Join(t)
			queues := newQueues(t, comms, opts...)
			must.OK(t, train(queues, list, 2), size, "ranks")
			closeQueues(t, queues)
			// The comms are still there, and clean.
			ringtest.All(t, size, func(rank int) error { return ring.Barrier(ctx, comms[rank]) })
		}
	})
}
