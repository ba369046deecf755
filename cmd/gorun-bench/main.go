// Command gorun-bench is one rank of `gorun bench --device cuda`. It is a program of its own
// because it loads the libraries of GPUs, which a static gorun cannot.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/gorun/gorun/internal/bench"
)

func main() {
	if err := bench.Rank(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gorun bench:", err)
		os.Exit(1)
	}
}
