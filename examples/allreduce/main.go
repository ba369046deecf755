// Allreduce adds up the numbers of all ranks: 0 + 1 + … + (size-1).
//
//	gorun -np 4 -H f1:2,f2:2 allreduce
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/gorun/gorun/ring"
)

func main() {
	ctx := context.Background()
	comm, err := ring.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer comm.Close()
	numbers := []float64{float64(comm.Rank())}
	if err := ring.AllReduce(ctx, comm, numbers, ring.Sum); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("rank %d of %d: the sum is %v\n", comm.Rank(), comm.Size(), numbers[0])
}
