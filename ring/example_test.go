package ring_test

import (
	"context"
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
