// Wedge is a rank whose rank 3 waits for ever in a channel while the others wait for it in a
// collective.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/gorun/gorun/ring"
)

func main() {
	ctx := context.Background()
	c, err := ring.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println("ready")
	if c.Rank() == 3 {
		channel()
	}
	if err := ring.AllReduce(ctx, c, []float32{1, 2}, ring.Sum); err != nil {
		log.Fatal(err)
	}
}

func channel() { <-make(chan int) }
