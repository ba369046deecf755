// Command sums is a rank that reduces numbers of all types with the other ranks. It prints a
// checksum of the results' bits for each type and operation: jobs on hosts of different
// architectures print the same lines.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"log"
	"math/rand/v2"

	"github.com/gorun/gorun/ring"
)

func main() {
	log.SetFlags(0)
	ctx := context.Background()
	comm, err := ring.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer comm.Close()
	arithmetic := []ring.Op{ring.Sum, ring.Avg, ring.Min, ring.Max, ring.Prod}
	for _, reduce := range []func() error{
		func() error { return all[float32](ctx, comm, ring.Float32, arithmetic) },
		func() error { return all[float64](ctx, comm, ring.Float64, arithmetic) },
		func() error { return all[ring.F16](ctx, comm, ring.Float16, arithmetic) },
		func() error { return all[ring.BF16](ctx, comm, ring.BFloat16, arithmetic) },
		func() error { return all[int8](ctx, comm, ring.Int8, arithmetic) },
		func() error { return all[int64](ctx, comm, ring.Int64, arithmetic) },
		func() error { return all[uint64](ctx, comm, ring.Uint64, []ring.Op{ring.Min, ring.Max, ring.BXor}) },
	} {
		if err := reduce(); err != nil {
			log.Fatal(err)
		}
	}
}

// all reduces vectors of any bits, NaNs and subnormal numbers among them.
func all[T ring.Elem](ctx context.Context, comm *ring.Comm, t ring.Type, ops []ring.Op) error {
	for _, op := range ops {
		sum := fnv.New64a()
		for _, n := range []int{1, 13, 1000, 100_003} { // from a message to the algorithms for long vectors
			r := rand.New(rand.NewPCG(uint64(comm.Rank()), uint64(n)))
			size := binary.Size(*new(T))
			bits := make([]byte, n*size)
			for i := range bits {
				bits[i] = byte(r.Uint32())
				// Most numbers are of moderate size. Of two NaNs the algorithm chooses one, so
				// ranks have theirs at other places.
				if (i+1)%size == 0 && (i/size+comm.Rank())%50 > 0 {
					bits[i] = bits[i]&0x83 | 0x38
				}
			}
			v := make([]T, n)
			if _, err := binary.Decode(bits, binary.LittleEndian, v); err != nil {
				return err
			}
			if err := ring.AllReduce(ctx, comm, v, op); err != nil {
				return err
			}
			if err := binary.Write(sum, binary.LittleEndian, v); err != nil {
				return err
			}
		}
		fmt.Printf("%v %v of %d ranks: %016x\n", op, t, comm.Size(), sum.Sum64())
	}
	return nil
}
