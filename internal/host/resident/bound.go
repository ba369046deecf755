package resident

import (
	"encoding/binary"
	"io"
	"math/bits"
	"net"
	"sync"
	"time"
)

// frameCost is the memory that smux takes for a frame that waits, beside the frame's data. smux
// itself counts the data alone, and a host may send a frame for each byte.
const frameCost = 96

// slotCost is the part of it that smux keeps until nothing of the stream waits.
const slotCost = 64

// bound bounds the memory of the data that waits for readers of a connection of smux. It takes no
// more from the connection before some has been read. It is safe for concurrent use, with one
// reader.
type bound struct {
	io.ReadWriteCloser
	most int // bytes

	header [8]byte // of the frame that comes
	known  int     // bytes of the header that have come
	left   int     // bytes of the frame's data that have not come

	mu      sync.Mutex
	changed sync.Cond // that there is less, or no reader any more
	closed  bool
	bytes   int
	streams map[uint32]*waiting
}

// waiting is the data of a stream that waits.
type waiting struct {
	lengths []uint16 // of its frames
	slots   int      // most frames that have waited since none did
	taken   int      // bytes of the first frame that have been read
}

func newBound(conn io.ReadWriteCloser, most int) *bound {
	b := &bound{ReadWriteCloser: conn, most: most, streams: map[uint32]*waiting{}}
	b.changed.L = &b.mu
	return b
}

// Read reads for smux, at most to the end of a header or of a frame.
func (b *bound) Read(p []byte) (n int, err error) {
	if b.left > 0 {
		n, err = b.ReadWriteCloser.Read(p[:min(len(p), b.left)])
		b.left -= n
		return n, err
	}
	n, err = b.ReadWriteCloser.Read(p[:min(len(p), len(b.header)-b.known)])
	b.known += copy(b.header[b.known:], p[:n])
	if b.known == len(b.header) {
		const push = 2
		b.known = 0
		length := binary.LittleEndian.Uint16(b.header[2:])
		b.left = int(length)
		if b.header[1] == push && length > 0 {
			b.admit(binary.LittleEndian.Uint32(b.header[4:]), length)
		}
	}
	return n, err
}

// admit waits until there is room for a frame of a stream. smux drops those of other streams.
func (b *bound) admit(id uint32, length uint16) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.bytes > 0 && b.bytes+costOf(length)+slotCost > b.most && !b.closed {
		b.changed.Wait()
	}
	if w := b.streams[id]; w != nil {
		w.lengths = append(w.lengths, length)
		b.bytes += costOf(length)
		if len(w.lengths) > w.slots {
			w.slots++
			b.bytes += slotCost
		}
	}
}

// costOf returns the memory of a frame with so much data, for which smux takes a power of two,
// beside its slot.
func costOf(length uint16) int { return frameCost - slotCost + 1<<bits.Len16(length-1) }

// open counts the data of a stream from now on.
func (b *bound) open(id uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.streams[id] = &waiting{}
}

// read records that n bytes of a stream wait no more.
func (b *bound) read(id uint32, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.streams[id]
	if w == nil {
		return
	}
	w.taken += n
	for len(w.lengths) > 0 && w.taken >= int(w.lengths[0]) {
		w.taken -= int(w.lengths[0])
		b.bytes -= costOf(w.lengths[0])
		w.lengths = w.lengths[1:]
		b.changed.Signal()
	}
	if len(w.lengths) == 0 {
		b.bytes -= w.slots * slotCost
		w.slots = 0
		w.lengths = nil
		b.changed.Signal()
	}
}

// drop records that nothing of a stream waits any more.
func (b *bound) drop(id uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.streams[id]; w != nil {
		for _, length := range w.lengths {
			b.bytes -= costOf(length)
		}
		b.bytes -= w.slots * slotCost
		delete(b.streams, id)
		b.changed.Signal()
	}
}

// Close closes the connection, and ends a Read that waits for room.
func (b *bound) Close() error {
	b.mu.Lock()
	b.closed = true
	b.changed.Broadcast()
	b.mu.Unlock()
	return b.ReadWriteCloser.Close()
}

// boundStream is a stream of a bound connection. It has no WriteTo, since that of smux does not
// report the bytes that it has read.
type boundStream struct {
	net.Conn
	id     uint32
	client *Client
}

func (s boundStream) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.client.bound.read(s.id, n)
	return n, err
}

// Close ends the stream. It does not wait until the other end has taken that. A host that has not
// in endTime loses the connection: the end of a stream ends none of its reads and writes that wait
// until the connection takes something.
func (s boundStream) Close() error {
	go func() {
		late := time.AfterFunc(s.client.endTime, func() { s.client.mux.Close() })
		defer late.Stop()
		s.Conn.Close()
		s.client.bound.drop(s.id)
	}()
	return nil
}
