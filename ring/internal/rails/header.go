package rails

import (
	"encoding/binary"
	"fmt"
)

const (
	headerSize = 20
	maxSegment = 64 << 10 // bytes
	maxWindow  = 16 << 20 // bytes that may be sent and not acknowledged
)

// header precedes each segment. One without bytes is an acknowledgement only.
type header struct {
	off  uint64 // offset of the segment in the stream
	ack  uint64 // the sender has read the other direction up to here
	size int
}

func (h header) encode(b *[headerSize]byte) {
	binary.BigEndian.PutUint64(b[:], h.off)
	binary.BigEndian.PutUint64(b[8:], h.ack)
	binary.BigEndian.PutUint32(b[16:], uint32(h.size))
}

func decodeHeader(b []byte) header {
	return header{off: binary.BigEndian.Uint64(b), ack: binary.BigEndian.Uint64(b[8:]),
		size: int(binary.BigEndian.Uint32(b[16:]))}
}

// check returns an error for a header that no rank sends: next is how far this rank has read, and
// sent how much it has sent.
func (h header) check(next, sent uint64) error {
	switch {
	case h.size < 0 || h.size > maxSegment:
		return fmt.Errorf("a segment of %d bytes", uint32(h.size))
	case h.off > next+maxWindow || h.off+uint64(h.size) > next+maxWindow:
		return fmt.Errorf("a segment at %d, %d bytes are read", h.off, next)
	case h.ack > sent:
		return fmt.Errorf("an acknowledgement of %d bytes, %d were sent", h.ack, sent)
	}
	return nil
}
