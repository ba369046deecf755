package link

import (
	"container/heap"
	"encoding/binary"
	"time"
)

const (
	// headSize is the size of struct virtio_net_hdr, which stands before each frame of a TAP.
	headSize = 10
	// frameMax is what a TAP hands out at most: a segment of 64 KiB with its headers.
	frameMax = headSize + 68<<10
)

// frame is an Ethernet frame on its way.
type frame struct {
	data     []byte // with its virtio_net_hdr
	size     int    // bytes on the wire
	from, to *Port
	passed   int       // lines
	at       time.Time // when it is at the end of the last one
	number   uint64    // in the order of entry
}

// address is an Ethernet address.
type address [6]byte

func (f *frame) target() address { return address(f.data[headSize:]) }
func (f *frame) source() address { return address(f.data[headSize+6:]) }

// group reports whether an address is that of several hosts.
func (a address) group() bool { return a[0]&1 != 0 }

// wireSize returns the bytes on the wire of what a TAP handed out. A segment that leaves in several
// packets has the headers of each.
func wireSize(data []byte) int {
	size := len(data) - headSize
	kind := data[1]
	packet := int(binary.NativeEndian.Uint16(data[4:]))
	tcp := headSize + int(binary.NativeEndian.Uint16(data[6:])) // where the checksum begins
	if kind == 0 || packet == 0 || tcp+13 > len(data) {
		return size
	}
	headers := tcp - headSize + int(data[tcp+12]>>4)*4
	if packets := (size - headers + packet - 1) / packet; packets > 1 {
		size += (packets - 1) * headers
	}
	return size
}

// schedule holds frames by the time at which they go on: a heap.
type schedule []*frame

func (s schedule) Len() int      { return len(s) }
func (s schedule) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *schedule) Push(f any)   { *s = append(*s, f.(*frame)) }

func (s schedule) Less(i, j int) bool {
	if !s[i].at.Equal(s[j].at) {
		return s[i].at.Before(s[j].at)
	}
	return s[i].number < s[j].number
}

func (s *schedule) Pop() any {
	last := len(*s) - 1
	f := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return f
}

func (s *schedule) add(f *frame) { heap.Push(s, f) }

// due takes the first frame whose time has come, or returns nil.
func (s *schedule) due(now time.Time) *frame {
	if len(*s) == 0 || (*s)[0].at.After(now) {
		return nil
	}
	return heap.Pop(s).(*frame)
}
