package ring

import (
	"fmt"

	"github.com/gorun/gorun/ring/internal/kernel"
)

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

func (o Op) String() string {
	names := [...]string{"", "sum", "avg", "min", "max", "prod", "band", "bor", "bxor"}
	if o == 0 || int(o) >= len(names) {
		return fmt.Sprintf("op %d", uint8(o))
	}
	return names[o]
}

// kernel is the operation on two elements that o is made of. Avg adds; the
// division comes once, at the end.
func (o Op) kernel() kernel.Op {
	return [...]kernel.Op{0, kernel.Sum, kernel.Sum, kernel.Min, kernel.Max, kernel.Prod, kernel.BAnd, kernel.BOr, kernel.BXor}[o]
}

// valid reports whether o is defined for elements of type t.
func (o Op) valid(t Type) bool {
	if o < Sum || o > BXor || (o == Avg && t == Bool) {
		return false
	}
	return kernel.Valid(kernel.DType(t), o.kernel())
}
