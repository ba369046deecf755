package rails

// minWindow is the first size of a window in bytes.
const minWindow = 1 << 20

// window keeps a copy of what was sent until it is acknowledged. Acked ≤ cut ≤ end.
type window struct {
	memory []byte // a power of two; offset o is at o modulo its length
	acked  uint64 // the other end has read all before
	cut    uint64 // all before was given to lanes
	end    uint64
}

// room returns how many bytes there is memory for.
func (w *window) room() int { return len(w.memory) - int(w.end-w.acked) }

// add copies b, for which there must be room.
func (w *window) add(b []byte) {
	first, second := w.at(w.end, len(b))
	copy(second, b[copy(first, b):])
	w.end += uint64(len(b))
}

// at returns the memory of n bytes at off, in up to two pieces.
func (w *window) at(off uint64, n int) (first, second []byte) {
	if n == 0 {
		return nil, nil
	}
	begin := int(off & uint64(len(w.memory)-1))
	if fit := len(w.memory) - begin; n > fit {
		return w.memory[begin:], w.memory[:n-fit]
	}
	return w.memory[begin : begin+n], nil
}

// grow doubles the memory, unless that is as large as it may be.
func (w *window) grow() bool {
	if len(w.memory) == maxWindow {
		return false
	}
	larger := window{
		memory: make([]byte, max(minWindow, 2*len(w.memory))),
		acked:  w.acked,
		cut:    w.cut,
		end:    w.acked,
	}
	if w.end > w.acked {
		first, second := w.at(w.acked, int(w.end-w.acked))
		larger.add(first)
		larger.add(second)
	}
	*w = larger
	return true
}
