package frames

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Kinds of frames: a kind (1 byte), a length (4 bytes, network order) and data. Both ends send them
// as they come; the stream itself holds back a sender that is too fast.
const (
	In    byte = 1 // bytes for the command's standard input; none: end of input
	Out   byte = 2
	Err   byte = 3
	Size  byte = 4 // size of the command's terminal, as JSON
	Begin byte = 5 // the command, as JSON; the first frame of a stream that begins without one
	Last  byte = 6 // how the command ended, as JSON
)

// Max bounds the data of a frame.
const Max = 64 << 10

// ErrTooLarge reports a frame of more than Max bytes.
var ErrTooLarge = errors.New("a frame is too large")

// NewReader returns a Reader of a command's frames, of which the head's first byte is the kind.
func NewReader(r io.Reader) *Reader { return Codec{Head: 5, Size: 1, Check: check}.NewReader(r) }

func check(_ []byte, size int) error {
	if size > Max {
		return fmt.Errorf("%w: %d bytes", ErrTooLarge, size)
	}
	return nil
}

// Read reads a frame.
func Read(r io.Reader) (kind byte, data []byte, err error) {
	head, data, err := NewReader(r).Next()
	if err != nil {
		return 0, nil, err
	}
	return head[0], data, nil
}

// Write writes a frame.
func Write(w io.Writer, kind byte, data []byte) error { return NewWriter(w).Send(kind, data) }

// Writer writes the frames of one end of a stream. It is safe for concurrent use.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
}

// NewWriter returns a Writer on w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Send writes a frame.
func (w *Writer) Send(kind byte, data []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = binary.BigEndian.AppendUint32(append(w.buf[:0], kind), uint32(len(data)))
	w.buf = append(w.buf, data...)
	_, err := w.w.Write(w.buf)
	return err
}

// SendJSON writes a frame with a message.
func (w *Writer) SendJSON(kind byte, message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return w.Send(kind, text)
}

// Stream returns a writer that sends its bytes in frames of a kind.
func (w *Writer) Stream(kind byte) io.Writer { return stream{w, kind} }

type stream struct {
	to   *Writer
	kind byte
}

func (s stream) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		part := p[:min(len(p), Max)]
		if err := s.to.Send(s.kind, part); err != nil {
			return n, err
		}
		n = n + len(part)
		p = p[len(part):]
	}
	return n, nil
}

// Feed sends what it reads as standard input, and its end; nil is empty. It returns when either
// side has ended. An error of reading is returned, and then no end is sent.
func (w *Writer) Feed(from io.Reader) error {
	if from != nil {
		buf := make([]byte, 32<<10)
		for {
			n, err := from.Read(buf)
			if n > 0 && w.Send(In, buf[:n]) != nil {
				return nil
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
		}
	}
	_ = w.Send(In, nil) // the other side may have ended
	return nil
}

// Input writes the frames of standard input to a command until their end, which closes to. It goes
// on until the stream fails, and returns its error, io.EOF if the other side has closed it. If that
// comes before the end of the input, to stays open.
func Input(from io.Reader, to io.WriteCloser) error {
	open := true
	for r := NewReader(from); ; {
		head, data, err := r.Next()
		if err == nil && head[0] != In {
			err = fmt.Errorf("a frame of kind %d for standard input", head[0])
		}
		if err != nil {
			return err
		}
		if len(data) == 0 {
			open = false
			to.Close()
		}
		if open { // a command that has closed its standard input goes on
			if _, err := to.Write(data); err != nil {
				open = false
			}
		}
	}
}

// WriteError is an error of a writer of Output.
type WriteError struct{ Err error }

func (e *WriteError) Error() string { return "pass output on: " + e.Err.Error() }
func (e *WriteError) Unwrap() error { return e.Err }

// Output writes the frames of a command's output until the last frame, and decodes that into end.
// An error of stdout or stderr is a [*WriteError].
func Output(from io.Reader, stdout, stderr io.Writer, end any) error {
	for r := NewReader(from); ; {
		head, data, err := r.Next()
		if err != nil {
			return err
		}
		var to io.Writer
		switch head[0] {
		case Out:
			to = stdout
		case Err:
			to = stderr
		case Last:
			return json.Unmarshal(data, end)
		default:
			return fmt.Errorf("a frame of kind %d for output", head[0])
		}
		if to == nil {
			continue
		}
		if _, err := to.Write(data); err != nil {
			return &WriteError{err}
		}
	}
}
