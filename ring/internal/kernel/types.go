package kernel

import "fmt"

// Type is an element type at run time. Zero is the type of calls without data.
type Type uint8

// The element types. Bool is a byte that is 0 or 1.
const (
	F32 Type = 1 + iota
	F64
	F16
	BF16
	I8
	U8
	I16
	I32
	I64
	U64
	Bool
)

// Size returns the length of an element in bytes, or 0 if t is not a type.
func (t Type) Size() int {
	switch t {
	case I8, U8, Bool:
		return 1
	case F16, BF16, I16:
		return 2
	case F32, I32:
		return 4
	case F64, I64, U64:
		return 8
	}
	return 0
}

func (t Type) String() string {
	names := [...]string{"", "float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64",
		"uint64", "bool"}
	if t == 0 || int(t) >= len(names) {
		return fmt.Sprintf("type %d", uint8(t))
	}
	return names[t]
}

// Float reports whether t is a floating point type.
func (t Type) Float() bool { return t >= F32 && t <= BF16 }

// Op is how [Set.Reduce] combines elements. The zero value is none.
type Op uint8

// The operations. Avg adds as Sum does: [Set.Divide] completes it. Sums and products of integers
// wrap around. For Bool, Sum and Max mean or, Prod and Min mean and.
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

// bitwise reports whether o is an operation on bits.
func (o Op) bitwise() bool { return o >= BAnd && o <= BXor }

// Valid reports whether op is defined for t: all are, except bit operations on floating point and
// the average of Bool.
func Valid(t Type, op Op) bool {
	return t.Size() > 0 && op >= Sum && op <= BXor && !(t.Float() && op.bitwise()) && !(t == Bool && op == Avg)
}

// canonical replaces Avg by Sum, and arithmetic on Bool by the equivalent bit operation.
func canonical(t Type, op Op) Op {
	switch {
	case op == Avg:
		return Sum
	case t != Bool:
		return op
	case op == Sum || op == Max:
		return BOr
	case op == Prod || op == Min:
		return BAnd
	}
	return op
}
