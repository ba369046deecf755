package negotiate

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// A frame is a head and the start of the rank's records; the others are the rest.
//
//	byte 0     version
//	byte 1     1 if the sender leaves, 2 if it joins after these records, 3 for both, else 0
//	bytes 2-5  digest of the sender's state, little endian
//	bytes 6-9  length of all records
//	bytes 10-  records, then zeros
//
// A record is one of these, in varints as of encoding/binary; to a kind 128 is added for the memory
// of GPUs:
//
//	0 len name kind type op root count len shape  a request in full
//	1+2·id                                        the request with this id
//	2+2·id n                                      those with ids id … id+n+1
const (
	FrameSize = 256
	MaxRest   = 4 << 20 // bytes of one rank in one cycle; others wait for the next

	version  = 4
	headSize = 10
	room     = FrameSize - headSize
	gpuFlag  = 0x80
	// maxRecord is more than the longest record takes, with a run of ids before it.
	maxRecord = MaxName + MaxShape + 64
)

// Frame is one rank's fixed-size contribution to a cycle.
type Frame [FrameSize]byte

// seal writes the head and the start of records into the frame, and returns the rest.
func (f *Frame) seal(digest uint32, records []byte) (rest []byte) {
	f[0] = version
	f[1] = 0
	binary.LittleEndian.PutUint32(f[2:], digest)
	binary.LittleEndian.PutUint32(f[6:], uint32(len(records)))
	n := copy(f[headSize:], records)
	clear(f[headSize+n:])
	return records[n:]
}

// openFrame checks the head of a frame, and returns the records in it and the length of
// the rest.
func openFrame(frame []byte, digest uint32) (records []byte, rest int, err error) {
	if frame[0] != version || frame[1] > leaveFlag|joinFlag {
		return nil, 0, fmt.Errorf("speaks version %d.%d of the negotiation, not %d: run the same build on all ranks",
			frame[0], frame[1], version)
	}
	if binary.LittleEndian.Uint32(frame[2:]) != digest {
		return nil, 0, errors.New("is not at the same point of the negotiation: " +
			"give all ranks the same cache size and fusion threshold, or else report a bug")
	}
	length := binary.LittleEndian.Uint32(frame[6:])
	if length > room+MaxRest {
		return nil, 0, fmt.Errorf("announces %d bytes of requests, more than %d", length, room+MaxRest)
	}
	n := min(int(length), room)
	return frame[headSize : headSize+n], int(length) - n, nil
}

// The announcements in a frame.
const (
	leaveFlag = 1 << iota
	joinFlag
)

// leaves reports whether the sender of a frame leaves.
func leaves(frame []byte) bool { return frame[1]&leaveFlag != 0 }

// joins reports whether the sender joins after the requests of this frame.
func joins(frame []byte) bool { return frame[1]&joinFlag != 0 }

// records encodes a rank's list. Ids in order become one record.
type records struct {
	b        []byte
	from, to uint64 // ids of the run that has not been written: from ≤ id < to
}

func (w *records) reset() {
	w.b = w.b[:0]
	w.from = 0
	w.to = 0
}

func (w *records) id(id int) {
	if w.from < w.to && w.to == uint64(id) {
		w.to++
		return
	}
	w.flush()
	w.from = uint64(id)
	w.to = uint64(id) + 1
}

func (w *records) full(r *Request) {
	w.flush()
	b := append(w.b, 0)
	b = binary.AppendUvarint(b, uint64(len(r.Name)))
	b = append(b, r.Name...)
	kind := byte(r.Kind)
	if r.GPU {
		kind |= gpuFlag
	}
	b = append(b, kind, byte(r.Type), byte(r.Op))
	b = binary.AppendUvarint(b, uint64(r.Root))
	b = binary.AppendUvarint(b, r.Count)
	b = binary.AppendUvarint(b, uint64(len(r.Shape)))
	w.b = append(b, r.Shape...)
}

func (w *records) flush() {
	switch n := w.to - w.from; n {
	case 0:
		return
	case 1:
		w.b = binary.AppendUvarint(w.b, 1+2*w.from)
	default:
		w.b = binary.AppendUvarint(w.b, 2+2*w.from)
		w.b = binary.AppendUvarint(w.b, n-2)
	}
	w.from = 0
	w.to = 0
}

// record is one decoded record: a run of ids, or a request in full.
type record struct {
	from, n     uint64 // n is zero when the request is in full
	name, shape []byte
	request     Request // without name and shape
}

// reader reads records. After the first fault it gives zeros, and bad stays set.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) more() bool { return len(r.b) > 0 && !r.bad }

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad = true
		r.b = nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad = true
		r.b = nil
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.take(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

// next reads one record into rec, and reports whether it is complete. It does not validate
// the values.
func (r *reader) next(rec *record) bool {
	*rec = record{}
	switch v := r.uvarint(); {
	case v == 0:
		rec.name = r.take(r.uvarint())
		kind := r.byte()
		rec.request.Kind = collective.Kind(kind &^ gpuFlag)
		rec.request.GPU = kind&gpuFlag != 0
		rec.request.Type = kernel.Type(r.byte())
		rec.request.Op = kernel.Op(r.byte())
		root := r.uvarint()
		if root > 1<<31-1 {
			r.bad = true
		}
		rec.request.Root = int32(root)
		rec.request.Count = r.uvarint()
		rec.shape = r.take(r.uvarint())
	case v%2 == 1:
		rec.from = (v - 1) / 2
		rec.n = 1
	default:
		rec.from = (v - 2) / 2
		n := r.uvarint()
		if n > 1<<32 { // far more than there are ids
			r.bad = true
		}
		rec.n = n + 2
	}
	return !r.bad
}
