package pmix

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// kind is the type of a message: see helper.h.
type kind byte

const (
	begin       kind = 'B'
	answer      kind = 'A'
	want        kind = 'W'
	echo        kind = 'S'
	loaded      kind = 'L'
	failed      kind = 'X'
	environment kind = 'E'
	ready       kind = 'R'
	entered     kind = 'I'
	left        kind = 'Z'
	abort       kind = 'T'
	spawn       kind = 'N'
	meet        kind = 'M'
	fence       kind = 'F'
	fetch       kind = 'D'
	publish     kind = 'P'
	lookup      kind = 'K'
	unpublish   kind = 'U'
	held        kind = 'V'
)

// maxFrame bounds a message, in bytes.
const maxFrame = 1 << 30

// frame is an outgoing message.
type frame []byte

func newFrame(k kind) frame { return frame{0, 0, 0, 0, byte(k)} }

func (f *frame) number(n int) { *f = binary.LittleEndian.AppendUint64(*f, uint64(n)) }

func (f *frame) text(b []byte) {
	*f = append(binary.LittleEndian.AppendUint32(*f, uint32(len(b))), b...)
}

func (f *frame) texts(list ...string) {
	for _, s := range list {
		f.text([]byte(s))
	}
}

func (f frame) send(w io.Writer) error {
	binary.LittleEndian.PutUint32(f, uint32(len(f)-4))
	_, err := w.Write(f)
	return err
}

// message is an incoming message.
type message struct {
	kind kind
	rest []byte
	err  error // set if an item was missing
}

var errShort = errors.New("it is too short")

func receive(r io.Reader) (message, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return message{}, err
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size < 1 || size > maxFrame {
		return message{}, fmt.Errorf("a message of %d bytes", size)
	}
	var rest bytes.Buffer // it grows with what arrives, not with what the head claims
	if _, err := io.CopyN(&rest, r, int64(size)-1); err != nil {
		return message{}, err
	}
	return message{kind: kind(head[4]), rest: rest.Bytes()}, nil
}

func (m *message) number() int {
	if len(m.rest) < 8 {
		m.err = errShort
		return 0
	}
	n := binary.LittleEndian.Uint64(m.rest)
	m.rest = m.rest[8:]
	return int(n)
}

func (m *message) text() []byte {
	if len(m.rest) < 4 || uint64(len(m.rest)-4) < uint64(binary.LittleEndian.Uint32(m.rest)) {
		m.err = errShort
		m.rest = nil
		return nil
	}
	n := binary.LittleEndian.Uint32(m.rest)
	text := m.rest[4 : 4+n]
	m.rest = m.rest[4+n:]
	return text
}
