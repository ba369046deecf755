package gloo

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
)

// Limits of a worker's registration.
const (
	maxPickle  = 32 << 10
	maxItems   = 1 << 10 // values of a pickle, and addresses
	maxKeySize = 1 << 10
)

var errPickle = errors.New("not what Python's pickle makes of addresses and a key")

// parseWorker parses a worker's registration: base64 of a pickled ({interface: [(address, port),
// ...]}, key).
func parseWorker(body []byte) (*worker, error) {
	if len(body) > maxPickle {
		return nil, fmt.Errorf("%w: %d bytes", errPickle, len(body))
	}
	text, err := base64.StdEncoding.DecodeString(string(body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPickle, err)
	}
	value, err := unpickle(text)
	if err != nil {
		return nil, err
	}
	pair, isPair := value.([2]any)
	interfaces, isDict := pair[0].(*[]any)
	key, isKey := pair[1].([]byte)
	if !isPair || !isDict || !isKey || len(key) == 0 || len(key) > maxKeySize {
		return nil, errPickle
	}
	w := &worker{key: key}
	for i, item := range *interfaces {
		if i%2 == 0 {
			continue // the interface's name
		}
		addrs, isList := item.(*[]any)
		if !isList {
			return nil, errPickle
		}
		for _, a := range *addrs {
			at, is := addressIn(a)
			if !is || len(w.addrs) >= maxItems {
				return nil, errPickle
			}
			w.addrs = append(w.addrs, at)
		}
	}
	return w, nil
}

// addressIn returns the address and port of an unpickled pair.
func addressIn(v any) (at netip.AddrPort, is bool) {
	pair, _ := v.([2]any)
	host, isText := pair[0].(string)
	port, isPort := pair[1].(int)
	addr, err := netip.ParseAddr(host)
	return netip.AddrPortFrom(addr, uint16(port)), isText && isPort && err == nil && port > 0 && port <= math.MaxUint16
}

// mark is the stack index at which the items of a list or dict begin.
type mark struct{}

// unpickler runs the instructions of pickle (protocols 4 and 5) that build strings, bytes, small
// numbers, pairs, lists and dicts. Unlike Python's it calls nothing. A dict is a list of
// alternating names and values.
type unpickler struct {
	in    []byte
	stack []any
	memo  []any
	items int
}

// unpickle returns a string, a []byte, an int, a [2]any or, for a list or a dict, a *[]any.
func unpickle(text []byte) (any, error) {
	p := &unpickler{in: text}
	for {
		op, ok := p.take(1)
		if !ok || len(p.stack) > maxItems || len(p.memo) > maxItems {
			return nil, errPickle
		}
		if op[0] == '.' {
			if len(p.stack) != 1 || len(p.in) > 0 || p.stack[0] == any(mark{}) {
				return nil, errPickle
			}
			return p.stack[0], nil
		}
		if !p.frame(op[0]) && !p.scalar(op[0]) && !p.build(op[0]) && !p.remember(op[0]) {
			return nil, fmt.Errorf("%w: instruction 0x%02x", errPickle, op[0])
		}
	}
}

func (p *unpickler) take(n int) ([]byte, bool) {
	if n < 0 || n > len(p.in) {
		return nil, false
	}
	taken := p.in[:n]
	p.in = p.in[n:]
	return taken, true
}

// number reads a number of size bytes.
func (p *unpickler) number(size int) (int, bool) {
	b, ok := p.take(size)
	if !ok {
		return 0, false
	}
	var wide [8]byte
	copy(wide[:], b)
	n := binary.LittleEndian.Uint64(wide[:])
	return int(n), n <= math.MaxInt32
}

func (p *unpickler) push(v any) bool {
	p.stack = append(p.stack, v)
	return true
}

func (p *unpickler) frame(op byte) bool {
	switch op {
	case 0x80: // PROTO
		version, ok := p.number(1)
		return ok && (version == 4 || version == 5)
	case 0x95: // FRAME: its length is not needed
		_, ok := p.take(8)
		return ok
	}
	return false
}

func (p *unpickler) scalar(op byte) bool {
	size := map[byte]int{'K': 1, 'M': 2, 'J': 4, 0x8c: 1, 'X': 4, 'C': 1, 'B': 4}[op]
	if size == 0 {
		return false
	}
	n, ok := p.number(size)
	if !ok {
		return false
	}
	switch op {
	case 'K', 'M', 'J': // BININT1, BININT2, BININT
		return p.push(n)
	}
	b, ok := p.take(n)
	if op == 'C' || op == 'B' { // SHORT_BINBYTES, BINBYTES
		return ok && p.push(b)
	}
	return ok && p.push(string(b)) // SHORT_BINUNICODE, BINUNICODE
}

// build handles lists, dicts and pairs.
func (p *unpickler) build(op byte) bool {
	switch op {
	case '}', ']': // EMPTY_DICT, EMPTY_LIST
		return p.push(new([]any))
	case '(': // MARK
		return p.push(mark{})
	case 0x86: // TUPLE2
		items, ok := p.pop(2)
		return ok && p.push([2]any{items[0], items[1]})
	case 'a': // APPEND
		items, ok := p.pop(1)
		return ok && p.extend(items)
	case 's': // SETITEM
		items, ok := p.pop(2)
		return ok && p.extend(items)
	case 'e', 'u': // APPENDS, SETITEMS
		for i := len(p.stack) - 1; i >= 0; i-- {
			if p.stack[i] == any(mark{}) {
				items := p.stack[i+1:]
				p.stack = p.stack[:i]
				return (op == 'e' || len(items)%2 == 0) && p.extend(items)
			}
		}
	}
	return false
}

// pop takes n values from the stack.
func (p *unpickler) pop(n int) (items []any, ok bool) {
	at := len(p.stack) - n
	if at < 0 {
		return nil, false
	}
	items = p.stack[at:]
	p.stack = p.stack[:at]
	for _, item := range items {
		if item == any(mark{}) {
			return nil, false
		}
	}
	return items, true
}

// extend adds values to the list or dict on the stack.
func (p *unpickler) extend(items []any) bool {
	if p.items += len(items); len(p.stack) == 0 || p.items > maxItems {
		return false
	}
	list, is := p.stack[len(p.stack)-1].(*[]any)
	if is {
		*list = append(*list, items...)
	}
	return is
}

// remember handles repeated values.
func (p *unpickler) remember(op byte) bool {
	size := 1
	switch op {
	case 0x94: // MEMOIZE
		if len(p.stack) == 0 || p.stack[len(p.stack)-1] == any(mark{}) {
			return false
		}
		p.memo = append(p.memo, p.stack[len(p.stack)-1])
		return true
	case 'h': // BINGET
	case 'j': // LONG_BINGET
		size = 4
	default:
		return false
	}
	n, ok := p.number(size)
	return ok && n < len(p.memo) && p.push(p.memo[n])
}
