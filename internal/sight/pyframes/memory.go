package pyframes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// Bounds on what is read of one process, whatever its memory says.
const (
	maxRead    = 16 << 20 // bytes in all
	minCharge  = 64       // bytes that a read counts at least
	maxString  = 4096     // characters
	maxTable   = 1 << 20  // bytes of a line table
	maxOffset  = 1 << 20  // offset of a field in a struct that the process describes itself
	maxThreads = 4096     // threads in the list of an interpreter
	maxParents = 16       // interpreters
)

var errTooMuch = errors.New("its memory leads to too many places")

// space is the memory of a process, as words of a little-endian machine with 64 bits. After the
// first failure its methods return zeros, and err has the cause.
type space struct {
	memory io.ReaderAt
	left   int // bytes that may still be read
	err    error
}

func (s *space) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// forget returns the failure, if any, and makes the space usable again.
func (s *space) forget() error {
	err := s.err
	s.err = nil
	return err
}

func (s *space) bytes(at uint64, n int) []byte {
	data := make([]byte, n)
	if s.left -= max(n, minCharge); s.left < 0 {
		s.fail(errTooMuch)
	}
	if s.err != nil {
		return data
	}
	if _, err := s.memory.ReadAt(data, int64(at)); err != nil {
		s.fail(fmt.Errorf("reading its memory at %#x: %w", at, err))
		clear(data)
	}
	return data
}

func (s *space) word(at uint64) uint64 { return binary.LittleEndian.Uint64(s.bytes(at, 8)) }

func (s *space) half(at uint64) uint32 { return binary.LittleEndian.Uint32(s.bytes(at, 4)) }

// text returns an object of Python's type str, without its end if it is very long.
func (s *space) text(at uint64, l *layout) string {
	length := s.word(at + l.textLength)
	state := s.half(at + l.textState)
	width := int(state >> 2 & 7)
	compact := state>>5&1 == 1
	ascii := state>>6&1 == 1
	if !compact || width != 1 && width != 2 && width != 4 {
		s.fail(errors.New("a name in its memory is no string of Python's"))
		return ""
	}
	data := at + l.wideText
	if ascii {
		data = at + l.asciiText
	}
	raw := s.bytes(data, int(min(length, maxString))*width)
	var text []byte
	for i := 0; i < len(raw); i += width {
		var r rune
		for k := range width {
			r |= rune(raw[i+k]) << (8 * k)
		}
		text = utf8.AppendRune(text, r)
	}
	return string(text)
}

// table returns an object of Python's type bytes.
func (s *space) table(at uint64, l *layout) []byte {
	return s.bytes(at+l.bytesData, int(min(s.word(at+l.bytesSize), maxTable)))
}
