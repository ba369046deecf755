//go:build cgo && linux

package ring_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// gpuRank is a rank with a queue and a device for its memory.
type gpuRank struct {
	q      *ring.Queue
	d      *ring.Device
	stream ring.Stream
}

func gpuRanks(t *testing.T, j *deviceJob) []gpuRank {
	t.Helper()
	comms := j.comms(t)
	all := devices(t, comms)
	ranks := make([]gpuRank, len(comms))
	for rank, q := range newQueues(t, comms) {
		s := must.Get(all[rank].NewStream())(t)
		ranks[rank] = gpuRank{q, all[rank], s}
	}
	return ranks
}

// sum submits an allreduce of n numbers, each rank's own, in the memory of the GPU, and returns
// what checks it.
func (r gpuRank) sum(t *testing.T, rank, size, n int, name string) (ring.Collective, func() error) {
	at := memory(t, r.d, 4*n)
	check.OK(t, ring.CopyToDevice(ctx, r.d, r.stream, at, slices.Repeat([]float32{float32(rank + n)}, n)))
	b := ring.DeviceBuffer(at, n)
	return ring.Collective{
			Kind:  ring.KindAllReduce,
			Type:  ring.Float32,
			Op:    ring.Sum,
			Dst:   b,
			Src:   b,
			Shape: "x",
		}, func() error {
			got := make([]float32, n)
			if err := ring.CopyFromDevice(ctx, r.d, r.stream, got, at); err != nil {
				return err
			}
			want := float32(size*n + size*(size-1)/2)
			if !slices.Equal(got, slices.Repeat([]float32{want}, n)) {
				return fmt.Errorf("%s of %d is %v, want %v", name, n, got, want)
			}
			return nil
		}
}

// Tensors of GPUs and of the host, submitted in an order of its own by each rank, one by one and in
// groups.
func TestQueueDevice(t *testing.T) {
	must.HaveTime(t)
	for _, caller := range deviceWays() {
		t.Run(caller.name, func(t *testing.T) {
			for name, value := range caller.harm {
				t.Setenv(name, value)
			}
			const size = 3
			const tensors = 24
			ranks := gpuRanks(t, newDeviceJob(t, size, caller.env...))
			ringtest.All(t, size, func(rank int) error {
				r := ranks[rank]
				for round := range 3 {
					var tickets []ring.Ticket
					var checks []func() error
					for _, i := range rand.Perm(tensors) {
						name := fmt.Sprintf("tensor %d", i)
						if i%3 == 0 {
							buf := []float32{float32(rank)}
							tk, err := ring.QueueAllReduce(r.q, name, buf, buf, ring.Sum)
							if err != nil {
								return err
							}
							tickets = append(tickets, tk)
							checks = append(checks, func() error { return match(name, nil, buf, []float32{3}) })
							continue
						}
						var names []string
						var work []ring.Collective
						for k := range i%4 + 1 {
							n := fmt.Sprintf("%s.%d", name, k)
							w, check := r.sum(t, rank, size, i+50*round+k, n)
							names = append(names, n)
							work = append(work, w)
							checks = append(checks, check)
						}
						var err error
						if tickets, err = r.q.SubmitDevice(tickets, rank, r.stream, names, work); err != nil {
							return err
						}
					}
					for i, tk := range tickets {
						if err := tk.Wait(ctx); err != nil {
							return fmt.Errorf("ticket %d: %w", i, err)
						}
					}
					for _, check := range checks {
						if err := check(); err != nil {
							return err
						}
					}
				}
				return nil
			})
		})
	}
}

// What is wrong with one tensor leaves the queue as it was.
func TestQueueDeviceErrors(t *testing.T) {
	const size = 2
	ranks := gpuRanks(t, newDeviceJob(t, size))
	ringtest.All(t, size, func(rank int) error {
		r := ranks[rank]
		w, check := r.sum(t, rank, size, 5, "good")
		submit := func(ordinal int, w ring.Collective) error {
			tickets, err := r.q.SubmitDevice(nil, ordinal, r.stream, []string{"x"}, []ring.Collective{w})
			if err != nil {
				return err
			}
			return tickets[0].Wait(ctx)
		}
		host := ring.BufferOf(make([]float32, 5))
		var err error
		if rank == 0 {
			err = submit(rank, w)
		} else {
			err = r.q.Do(ctx, "x", ring.Collective{
				Kind:  ring.KindAllReduce,
				Type:  ring.Float32,
				Op:    ring.Sum,
				Dst:   host,
				Src:   host,
				Shape: "x",
			})
		}
		if !errors.As(err, new(*ring.TensorMismatchError)) ||
			!strings.Contains(err.Error(), `rank 0 submitted allreduce sum of 5 f32 in shape "x" on GPUs, rank 1`) {
			return fmt.Errorf("one on the GPU, one not: %w", err)
		}
		if err := submit(rank, w); err != nil {
			return err
		}
		if err := submit(rank+1, w); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("GPU %d", rank+1)) {
			return fmt.Errorf("another GPU: %w", err)
		}
		if err := submit(rank, ring.Collective{}); err == nil {
			return errors.New("a call of no kind was taken")
		}
		if rank == 0 {
			j, err := r.q.Join()
			if err == nil {
				_, err = j.Wait(ctx)
			}
			return errors.Join(err, check())
		}
		if err := submit(rank, w); !errors.As(err, new(*ring.JoinedError)) {
			return fmt.Errorf("after the other has joined: %w", err)
		}
		j, err := r.q.Join()
		if err == nil {
			_, err = j.Wait(ctx)
		}
		return errors.Join(err, check())
	})
}

// Where a rank has no GPU all hear of it, and the queue works on.
func TestQueueDeviceWithoutGPU(t *testing.T) {
	const size = 2
	j := newDeviceJob(t, size)
	j.own[1] = []string{"RING_CUDA_LIB=/nowhere/libcuda.so.1"}
	queues := newQueues(t, j.comms(t))
	ringtest.All(t, size, func(rank int) error {
		b := ring.DeviceBuffer(4096, 3)
		for range 2 {
			tickets, err := queues[rank].SubmitDevice(nil, rank, 0, []string{"x"},
				[]ring.Collective{{Kind: ring.KindBroadcast, Type: ring.Int8, Dst: b}})
			if err != nil {
				return err
			}
			if err := tickets[0].Wait(ctx); !errors.Is(err, ring.ErrNoGPU) || !strings.Contains(err.Error(), "rank 1") {
				return fmt.Errorf("rank %d: %w", rank, err)
			}
		}
		return doSum(ctx, queues[rank], "host", rank, size, 9)
	})
}

// A rank that dies is named to those that wait for it, and by all that comes later.
func TestQueueDeviceLostRank(t *testing.T) {
	const size = 3
	const victim = 1
	j := newDeviceJob(t, size)
	ranks := gpuRanks(t, j)
	ringtest.All(t, size, func(rank int) error {
		r := ranks[rank]
		w, _ := r.sum(t, rank, size, 7, "x") // before the end of the job, which ends the copy too
		for i := 0; ; i++ {
			if rank == victim && i == 5 {
				j.Abort(ringtest.Abort{Rank: victim, Host: ringtest.Host, Cause: "killed by the test"})
				return nil
			}
			tickets, err := r.q.SubmitDevice(nil, rank, r.stream, []string{"x"}, []ring.Collective{w})
			if err == nil {
				within, cancel := context.WithTimeout(ctx, 10*time.Second) // the goal is one
				err = tickets[0].Wait(within)
				cancel()
			}
			if err != nil {
				return wantPeer(err, victim)
			}
			if i > 5 {
				return errors.New("it goes on without the other rank")
			}
		}
	})
}
