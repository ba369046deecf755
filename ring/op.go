package ring

import "github.com/gorun/gorun/ring/internal/kernel"

// Op is how a reduction combines the elements of the ranks.
type Op = kernel.Op

// The operations. Min and Max of a NaN and a number are NaN, and order -0 before +0. Avg is Sum
// divided by the number of ranks; integers are truncated towards zero. Sums and products of
// integers wrap around. BAnd, BOr and BXor work on the bits of integers and on bool. For bool, Sum
// and Max mean or, Prod and Min mean and, and Avg is an error.
const (
	Sum  = kernel.Sum
	Avg  = kernel.Avg
	Min  = kernel.Min
	Max  = kernel.Max
	Prod = kernel.Prod
	BAnd = kernel.BAnd
	BOr  = kernel.BOr
	BXor = kernel.BXor
)
