package kernel

import "fmt"

// DType is the type of an array's elements. The zero value is none.
type DType uint8

// The element types. Bool is a byte that is 0 or 1.
const (
	F32 DType = 1 + iota
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
func (t DType) Size() int {
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

func (t DType) String() string {
	names := [...]string{"", "f32", "f64", "f16", "bf16", "i8", "u8", "i16", "i32", "i64", "u64", "bool"}
	if t == 0 || int(t) >= len(names) {
		return fmt.Sprintf("dtype %d", uint8(t))
	}
	return names[t]
}

func (t DType) float() bool { return t >= F32 && t <= BF16 }

// half reports whether t is computed in float32.
func (t DType) half() bool { return t == F16 || t == BF16 }

// Op is an operation of [Set.Reduce] on two elements. The zero value is none.
type Op uint8

// The operations. Sums and products of integers wrap around. For Bool, Sum and
// Max mean or, Prod and Min mean and.
const (
	Sum Op = 1 + iota
	Prod
	Min
	Max
	BAnd
	BOr
	BXor
)

func (o Op) String() string {
	names := [...]string{"", "sum", "prod", "min", "max", "band", "bor", "bxor"}
	if o == 0 || int(o) >= len(names) {
		return fmt.Sprintf("op %d", uint8(o))
	}
	return names[o]
}

// bitwise reports whether o is an operation on bits.
func (o Op) bitwise() bool { return o >= BAnd && o <= BXor }

// Valid reports whether op is defined for t: all are, except bit operations on floating
// point.
func Valid(t DType, op Op) bool {
	return t.Size() > 0 && op >= Sum && op <= BXor && !(t.float() && op.bitwise())
}

// canonical replaces arithmetic on Bool by the equivalent bit operation.
func canonical(t DType, op Op) Op {
	if t != Bool {
		return op
	}
	switch op {
	case Sum, Max:
		return BOr
	case Prod, Min:
		return BAnd
	}
	return op
}
