package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/gorun/gorun/ring"
)

// elementType is how values of one type look in memory.
type elementType struct {
	id    ring.Type
	name  string // name in nccl-tests
	width int    // bytes
}

func elementTypes() []elementType {
	return []elementType{
		{ring.Float32, "float", 4}, {ring.Float64, "double", 8}, {ring.Float16, "half", 2},
		{ring.BFloat16, "bfloat16", 2},
		{ring.Int8, "int8", 1}, {ring.Uint8, "uint8", 1}, {ring.Int16, "int16", 2}, {ring.Int32, "int32", 4},
		{ring.Int64, "int64", 8}, {ring.Uint64, "uint64", 8}, {ring.Bool, "bool", 1},
	}
}

func operations() []ring.Op {
	return []ring.Op{ring.Sum, ring.Avg, ring.Min, ring.Max, ring.Prod, ring.BAnd, ring.BOr, ring.BXor}
}

// Types and Ops are the names that Options may have. Types go by ring's names too.
func Types() []string {
	var names []string
	for _, t := range elementTypes() {
		names = append(names, t.name)
	}
	return names
}

// Ops are the names of operations.
func Ops() []string {
	var names []string
	for _, op := range operations() {
		names = append(names, op.String())
	}
	return names
}

// combination is a type, and how its elements are combined.
type combination struct {
	typ elementType
	op  ring.Op
}

// valid reports whether the operation is defined for the type.
func (c combination) valid() bool {
	switch c.op {
	case ring.BAnd, ring.BOr, ring.BXor:
		return !c.typ.float()
	case ring.Avg:
		return c.typ.id != ring.Bool
	}
	return true
}

// combinations returns the valid pairs of types and ops. If a collective combines nothing, the
// operation is sum and does not matter.
func combinations(types, ops []string, combines bool) ([]combination, error) {
	if len(types) == 0 {
		types = []string{"float"}
	}
	if len(ops) == 0 {
		ops = []string{ring.Sum.String()}
	}
	if slices.Contains(types, "all") {
		types = Types()
	}
	if slices.Contains(ops, "all") {
		ops = Ops()
	}
	var all []combination
	for _, t := range types {
		typ := slices.IndexFunc(elementTypes(), func(e elementType) bool { return e.name == t || e.id.String() == t })
		if typ < 0 {
			return nil, fmt.Errorf("there is no type %q", t)
		}
		for _, o := range ops {
			op := slices.IndexFunc(operations(), func(op ring.Op) bool { return op.String() == o })
			if op < 0 {
				return nil, fmt.Errorf("there is no operation %q", o)
			}
			if c := (combination{elementTypes()[typ], operations()[op]}); c.valid() || !combines {
				all = append(all, c)
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s is not defined for %s", ops[0], types[0])
	}
	return all, nil
}

func (t elementType) float() bool {
	return slices.Contains([]ring.Type{ring.Float32, ring.Float64, ring.Float16, ring.BFloat16}, t.id)
}

func (t elementType) unsigned() bool {
	return t.id == ring.Uint8 || t.id == ring.Uint64
}

// wrap is v as the type keeps it. Floats are only given whole numbers that they
// hold exactly.
func (t elementType) wrap(v int64) int64 {
	switch t.id {
	case ring.Int8:
		return int64(int8(v))
	case ring.Uint8:
		return int64(uint8(v))
	case ring.Int16:
		return int64(int16(v))
	case ring.Int32:
		return int64(int32(v))
	case ring.Bool:
		return v & 1
	}
	return v
}

func (t elementType) put(b []byte, v int64) []byte {
	order := binary.NativeEndian
	switch t.id {
	case ring.Float32:
		return order.AppendUint32(b, math.Float32bits(float32(v)))
	case ring.Float64:
		return order.AppendUint64(b, math.Float64bits(float64(v)))
	case ring.BFloat16:
		return order.AppendUint16(b, uint16(math.Float32bits(float32(v))>>16))
	case ring.Float16:
		return order.AppendUint16(b, half16(v))
	}
	switch t.width {
	case 1:
		return append(b, byte(v))
	case 2:
		return order.AppendUint16(b, uint16(v))
	case 4:
		return order.AppendUint32(b, uint32(v))
	}
	return order.AppendUint64(b, uint64(v))
}

// half16 is a whole number of at most 11 bits as an IEEE 754 half-precision number.
func half16(v int64) uint16 {
	sign := uint16(0)
	if v < 0 {
		sign = 0x8000
		v = -v
	}
	if v == 0 {
		return sign
	}
	exponent := bits.Len64(uint64(v)) - 1
	return sign | uint16(exponent+15)<<10 | uint16(v<<10>>exponent)&0x3ff
}

// period is after how many elements values repeat. It is prime, so that data in
// the wrong place is seen.
const period = 251

// unwritten fills memory that a call must overwrite.
const unwritten = 0xa5

// tile is the first values of a vector, over and over up to twice the period.
func (t elementType) tile(value func(i int) int64) []byte {
	var b []byte
	for i := range 2 * period {
		b = t.put(b, t.wrap(value(i%period)))
	}
	return b
}

// segment is memory that holds, or shall hold, a tile's values from its phase on.
type segment struct {
	memory []byte
	tile   []byte
	phase  int // elements
}

func (s segment) fill(width int) {
	from := s.tile[s.phase*width:][:period*width]
	done := copy(s.memory, from)
	for done < len(s.memory) { // doubling, always whole periods
		done += copy(s.memory[done:], s.memory[:done])
	}
}

// wrong counts elements that are not as they shall be.
func (s segment) wrong(width int) int {
	wrong := 0
	for at := 0; at < len(s.memory); at += period * width {
		got := s.memory[at:min(at+period*width, len(s.memory))]
		want := s.tile[s.phase*width:][:len(got)]
		if bytes.Equal(got, want) {
			continue
		}
		for i := 0; i < len(got); i += width {
			if !bytes.Equal(got[i:i+width], want[i:i+width]) {
				wrong++
			}
		}
	}
	return wrong
}
