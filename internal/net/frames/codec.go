// Package frames reads the framed streams between processes of gorun, and carries the input, output
// and end of one command over such a stream.
package frames

import (
	"encoding/binary"
	"errors"
	"io"
)

// Codec divides a stream into frames: a head of Head bytes, then the data, whose size is the 4
// bytes of the head at Size, in network order.
type Codec struct {
	Head int
	Size int
	// Check refuses a head, and bounds the size, before the data is read.
	Check func(head []byte, size int) error
}

// Reader reads frames. It is not safe for concurrent use.
type Reader struct {
	r     io.Reader
	codec Codec
	head  []byte
	data  []byte
}

// NewReader returns a Reader on r, which it reads in whole frames, unbuffered.
func (c Codec) NewReader(r io.Reader) *Reader {
	return &Reader{
		r:     r,
		codec: c,
		head:  make([]byte, c.Head),
	}
}

// Next returns the next frame, which is valid until the next call. At a frame boundary the end of
// the stream is io.EOF, inside a frame io.ErrUnexpectedEOF.
func (r *Reader) Next() (head, data []byte, err error) {
	if _, err := io.ReadFull(r.r, r.head); err != nil {
		return nil, nil, err
	}
	size := int(binary.BigEndian.Uint32(r.head[r.codec.Size:]))
	if err := r.codec.Check(r.head, size); err != nil {
		return nil, nil, err
	}
	if err := r.fill(size); err != nil {
		return nil, nil, err
	}
	return r.head, r.data[:size], nil
}

// growStep is the first growth of the buffer, which grows with the bytes that arrive, not with the
// size that a head claims.
const growStep = 64 << 10

// fill reads size bytes into r.data.
func (r *Reader) fill(size int) error {
	for have := 0; have < size; {
		want := min(size, have+growStep)
		if cap(r.data) < want {
			grown := make([]byte, max(want, min(2*cap(r.data), size)))
			copy(grown, r.data[:have])
			r.data = grown
		}
		r.data = r.data[:cap(r.data)]
		n, err := io.ReadFull(r.r, r.data[have:want])
		have += n
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}
