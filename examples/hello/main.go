// Hello prints which rank it is, and where.
//
//	gorun -np 4 -H f1:2,f2:2 hello
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/gorun/gorun/ring"
)

func main() {
	comm, err := ring.Init(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer comm.Close()
	fmt.Printf("hello from rank %d of %d on %s (local rank %d)\n", comm.Rank(), comm.Size(), comm.Host(),
		comm.LocalRank())
}
