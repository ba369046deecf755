package ring_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/gorun/gorun/ring"
)

// Without gorun a program is a world of one; with "gorun -np 4" the same program
// prints the average over four ranks.
func Example() {
	ctx := context.Background()
	comm, err := ring.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer comm.Close()

	gradient := []float32{1, 2, 3}
	if err := ring.AllReduce(ctx, comm, gradient, ring.Avg); err != nil {
		log.Fatal(err)
	}
	fmt.Println(comm.Rank(), comm.Size(), gradient)
	// Output: 0 1 [1 2 3]
}

// Join a world of one, as a program does that gorun has not started.
func join(ctx context.Context) *ring.Comm {
	comm, err := ring.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	return comm
}

// The call runs while the rank computes something else.
func ExampleAllReduceAsync() {
	ctx := context.Background()
	comm := join(ctx)
	defer comm.Close()

	src := []int64{1, 2, 3}
	dst := make([]int64, 3)
	handle, err := ring.AllReduceAsync(comm, dst, src, ring.Sum)
	if err != nil {
		log.Fatal(err)
	}
	// compute something that uses neither src nor dst
	if err := handle.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(dst)
	// Output: [1 2 3]
}

// Every rank contributes its number; all ranks get all numbers.
func ExampleAllGather() {
	ctx := context.Background()
	comm := join(ctx)
	defer comm.Close()

	all := make([]int32, comm.Size())
	if err := ring.AllGather(ctx, comm, all, []int32{int32(comm.Rank())}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(all)
	// Output: [0]
}

// The ranks of each host form a communicator.
func ExampleSplit() {
	ctx := context.Background()
	comm := join(ctx)
	defer comm.Close()

	host, err := ring.Split(ctx, comm, comm.CrossRank(), comm.Rank())
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	fmt.Println(host.Rank(), host.Size())
	// Output: 0 1
}

// Ranks may submit tensors in different orders.
func ExampleQueue() {
	ctx := context.Background()
	comm := join(ctx)
	defer comm.Close()
	queue, err := ring.NewQueue(ctx, comm)
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()

	weights := []float32{4, 5}
	ticket, err := ring.QueueAllReduce(queue, "weights", weights, weights, ring.Avg)
	if err != nil {
		log.Fatal(err)
	}
	if err := ticket.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(weights)
	// Output: [4 5]
}

// Training goes on from the last Commit when ranks fail, join or leave.
func ExampleElastic() {
	weights := []float32{0}
	state := ring.SliceState(weights)
	err := ring.Elastic(context.Background(), state, func(ctx context.Context, comm *ring.Comm) error {
		for weights[0] < 3 {
			gradient := []float32{1}
			if err := ring.AllReduce(ctx, comm, gradient, ring.Avg); err != nil {
				return err
			}
			weights[0] += gradient[0]
			if err := ring.Commit(ctx, comm, state); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(weights)
	// Output: [3]
}

// All ranks make a step or none does, and no step is lost when ranks fail, join or leave.
func ExampleStep() {
	weights := []float32{0}
	train := func(ctx context.Context, comm *ring.Comm) error {
		for weights[0] < 3 {
			gradient := []float32{1}
			compute := func() error { return ring.AllReduce(ctx, comm, gradient, ring.Avg) }
			apply := func() error {
				weights[0] += gradient[0]
				return nil
			}
			if err := ring.Step(ctx, comm, compute, apply); err != nil {
				return err
			}
		}
		return nil
	}
	if err := ring.Elastic(context.Background(), ring.SliceState(weights), train); err != nil {
		log.Fatal(err)
	}
	fmt.Println(weights)
	// Output: [3]
}

// The first failed rank is known to all ranks.
func ExamplePeerError() {
	ctx := context.Background()
	comm := join(ctx)
	defer comm.Close()

	err := ring.Barrier(ctx, comm)
	if peer := new(ring.PeerError); errors.As(err, &peer) {
		log.Fatalf("rank %d on %s failed: %v", peer.Rank, peer.Host, peer.Cause)
	}
	fmt.Println(err)
	// Output: <nil>
}
