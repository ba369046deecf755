package engine

import (
	"fmt"

	"github.com/gorun/gorun/ring/internal/kernel"
)

// Op is how a reduction combines two elements.
type Op uint8

// The operations, as package ring defines them.
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

// kernel returns the operation on two elements that o is made of. Avg adds; the
// division comes once, at the end.
func (o Op) kernel() kernel.Op {
	return [...]kernel.Op{0, kernel.Sum, kernel.Sum, kernel.Min, kernel.Max, kernel.Prod, kernel.BAnd, kernel.BOr,
		kernel.BXor}[o]
}

// Valid reports whether o is defined for elements of type t.
func (o Op) Valid(t Type) bool {
	if o < Sum || o > BXor || (o == Avg && t == Bool) {
		return false
	}
	return kernel.Valid(kernel.DType(t), o.kernel())
}
