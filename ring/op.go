package ring

import "github.com/gorun/gorun/ring/internal/engine"

// Op says how an allreduce combines the ranks' elements.
type Op uint8

// The operations. Min and Max of a NaN and a number are NaN, and take -0 to be
// less than +0. Avg is Sum divided by the number of ranks; integers are then cut
// towards zero. Sums and products of integers wrap around. BAnd, BOr and BXor work
// on the bits of integers and on bool, for which Sum and Max mean or, Prod and Min
// mean and, and Avg means nothing.
const (
	Sum Op = 1 + iota
	Avg
	Min
	Max
	Prod
	BAnd
	BOr
	BXor
)

func (o Op) String() string { return engine.Op(o).String() }
