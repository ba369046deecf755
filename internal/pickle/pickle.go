// Package pickle reads what Python's pickle makes of plain data, without obeying it.
package pickle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// List is a list or a tuple. It is shared by reference, as in a pickle, and may contain itself.
type List struct{ Items []any }

// Dict is a dict, shared by reference.
type Dict struct {
	Items map[string]any
	Keys  []string // keys in their order in the pickle
}

// ErrIncomplete is the error of a pickle that ends early, as while it is written.
var ErrIncomplete = errors.New("the pickle ends early")

// maxKey bounds a key in bytes: each use of a key takes time for them, and a pickle may use one a
// million times.
const maxKey = 1 << 10

// Read reads one value from data: a *Dict with keys of strings, a *List, a string, a []byte, an
// int64, a float64, a bool or nil. It returns the bytes after the value too. Opcodes that name or
// call anything are errors, so a hostile pickle runs no code; its memory is bounded by the length
// of data and by maxOpcodes.
func Read(data []byte, maxOpcodes int) (value any, rest []byte, err error) {
	m := machine{data: data}
	for range maxOpcodes {
		op, err := m.take(1)
		if err != nil {
			return nil, nil, err
		}
		if op[0] == '.' {
			value, err := m.pop()
			return value, m.data, err
		}
		if err := m.step(op[0]); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, errors.New("the pickle has too many values")
}

// machine is the state of a pickle that is read.
type machine struct {
	data  []byte
	stack []any
	marks []int // lengths of stack at the marks
	memo  []any
}

func (m *machine) take(n uint64) ([]byte, error) {
	if n > uint64(len(m.data)) {
		return nil, ErrIncomplete
	}
	head := m.data[:n]
	m.data = m.data[n:]
	return head, nil
}

// number reads an unsigned number of up to 8 bytes, the lowest first.
func (m *machine) number(bytes uint64) (uint64, error) {
	raw, err := m.take(bytes)
	if err != nil {
		return 0, err
	}
	var whole [8]byte
	copy(whole[:], raw)
	return binary.LittleEndian.Uint64(whole[:]), nil
}

func (m *machine) push(value any) { m.stack = append(m.stack, value) }

// base is the length of the stack that the innermost mark keeps.
func (m *machine) base() int {
	if n := len(m.marks); n > 0 {
		return m.marks[n-1]
	}
	return 0
}

func (m *machine) pop() (any, error) {
	if len(m.stack) <= m.base() {
		return nil, errors.New("the pickle takes a value that it does not have")
	}
	value := m.stack[len(m.stack)-1]
	m.stack = m.stack[:len(m.stack)-1]
	return value, nil
}

// marked takes the values since the last mark, or the last n if n is not negative.
func (m *machine) marked(n int) ([]any, error) {
	from := len(m.stack) - n
	if n < 0 {
		if len(m.marks) == 0 {
			return nil, errors.New("the pickle ends a group that it has not begun")
		}
		from = m.base()
		m.marks = m.marks[:len(m.marks)-1]
	} else if from < m.base() {
		return nil, errors.New("the pickle takes values that it does not have")
	}
	values := append([]any(nil), m.stack[from:]...)
	m.stack = m.stack[:from]
	return values, nil
}

// width returns the bytes of an operand that is a number.
func width(op byte) uint64 {
	switch op {
	// PROTO, BININT1, LONG1, SHORT_BINUNICODE, SHORT_BINBYTES, BINPUT, BINGET
	case 0x80, 'K', 0x8a, 0x8c, 'C', 'q', 'h':
		return 1
	case 'M': // BININT2
		return 2
	case 'J', 'X', 'B', 'r', 'j': // BININT, BINUNICODE, BINBYTES, LONG_BINPUT, LONG_BINGET
		return 4
	case 'G', 0x8d, 0x95: // BINFLOAT, BINUNICODE8, FRAME
		return 8
	}
	return 0
}

func (m *machine) step(op byte) error {
	n, err := m.number(width(op))
	if err != nil {
		return err
	}
	switch op {
	case 0x80, 0x95: // PROTO, FRAME
		return nil
	case 'N': // NONE
		m.push(nil)
	case 0x88, 0x89: // NEWTRUE, NEWFALSE
		m.push(op == 0x88)
	case 'K', 'M': // BININT1, BININT2
		m.push(int64(n))
	case 'J': // BININT
		m.push(int64(int32(uint32(n))))
	case 0x8a: // LONG1
		return m.long(n)
	case 'G': // BINFLOAT is big-endian
		var raw [8]byte
		binary.LittleEndian.PutUint64(raw[:], n)
		m.push(math.Float64frombits(binary.BigEndian.Uint64(raw[:])))
	case 'X', 0x8c, 0x8d: // BINUNICODE, SHORT_BINUNICODE, BINUNICODE8
		text, err := m.take(n)
		if err != nil {
			return err
		}
		m.push(string(text))
	case 'C', 'B': // SHORT_BINBYTES, BINBYTES
		raw, err := m.take(n)
		if err != nil {
			return err
		}
		m.push(raw)
	case 'q', 'r', 0x94: // BINPUT, LONG_BINPUT, MEMOIZE
		if op == 0x94 {
			n = uint64(len(m.memo))
		}
		return m.remember(n)
	case 'h', 'j': // BINGET, LONG_BINGET
		if n >= uint64(len(m.memo)) {
			return fmt.Errorf("the pickle refers to value %d, which it does not have", n)
		}
		m.push(m.memo[n])
	default:
		return m.collect(op)
	}
	return nil
}

// long pushes a number of n bytes in two's complement.
func (m *machine) long(n uint64) error {
	if n > 8 {
		return fmt.Errorf("the pickle has a number of %d bytes", n)
	}
	value, err := m.number(n)
	if err != nil {
		return err
	}
	unused := 64 - 8*n
	m.push(int64(value<<unused) >> unused)
	return nil
}

// remember keeps the value on the top under a number. Writers count up from 0.
func (m *machine) remember(n uint64) error {
	top, err := m.pop()
	if err != nil {
		return err
	}
	m.push(top)
	switch have := uint64(len(m.memo)); {
	case n < have:
		m.memo[n] = top
	case n == have:
		m.memo = append(m.memo, top)
	default:
		return fmt.Errorf("the pickle numbers a value %d after %d values", n, have)
	}
	return nil
}

// collect carries out the opcodes of lists, tuples and dicts.
func (m *machine) collect(op byte) error {
	var values []any
	var err error
	switch op {
	case '(': // MARK
		m.marks = append(m.marks, len(m.stack))
		return nil
	case ']', ')': // EMPTY_LIST, EMPTY_TUPLE
		m.push(&List{})
		return nil
	case '}': // EMPTY_DICT
		m.push(&Dict{}) // without a map until it has a key: a hostile pickle may have a million
		return nil
	case 't', 'e', 'u': // TUPLE, APPENDS, SETITEMS
		values, err = m.marked(-1)
	case 0x85, 0x86, 0x87: // TUPLE1, TUPLE2, TUPLE3
		values, err = m.marked(int(op) - 0x84)
	case 'a': // APPEND
		values, err = m.marked(1)
	case 's': // SETITEM
		values, err = m.marked(2)
	default:
		return fmt.Errorf("the pickle has the opcode %#02x, which is not plain data", op)
	}
	if err != nil {
		return err
	}
	if op == 't' || op >= 0x85 {
		m.push(&List{values})
		return nil
	}
	into, err := m.pop()
	if err != nil {
		return err
	}
	m.push(into)
	return fill(into, values, op == 'e' || op == 'a')
}

// fill adds values to a list, or keys and values to a dict.
func fill(into any, values []any, toList bool) error {
	if l, is := into.(*List); is && toList {
		l.Items = append(l.Items, values...)
		return nil
	}
	d, is := into.(*Dict)
	if !is || toList || len(values)%2 != 0 {
		return errors.New("the pickle adds to something that is no list or dict")
	}
	if d.Items == nil && len(values) > 0 {
		d.Items = make(map[string]any, len(values)/2)
	}
	for i := 0; i < len(values); i += 2 {
		key, is := values[i].(string)
		if !is {
			return errors.New("the pickle has a key that is no string")
		}
		if len(key) > maxKey {
			return fmt.Errorf("the pickle has a key of %d bytes", len(key))
		}
		if _, known := d.Items[key]; !known {
			d.Keys = append(d.Keys, key)
		}
		d.Items[key] = values[i+1]
	}
	return nil
}
