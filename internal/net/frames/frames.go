// Package frames carries the input, output and end of one command over a byte stream.
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
	In    byte = 1 // to the command's standard input; none: its end
	Out   byte = 2
	Err   byte = 3
	Size  byte = 4 // of its terminal, as JSON
	Begin byte = 5 // the command, as JSON; the first frame of a stream that begins without one
	Last  byte = 6 // how the command ended, as JSON
)

// Max bounds the data of a frame.
const Max = 64 << 10

// Write writes a frame.
func Write(w io.Writer, kind byte, data []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(data))), data...))
	return err
}

// Read reads a frame.
func Read(r io.Reader) (kind byte, data []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > Max {
		return 0, nil, fmt.Errorf("a frame of %d bytes", size)
	}
	data = make([]byte, size)
	_, err = io.ReadFull(r, data)
	return head[0], data, err
}

// Writer writes the frames of one end of a stream. It is safe for concurrent use.
type Writer struct {
	mu sync.Mutex
	w  io.Writer
}

// NewWriter returns a Writer on w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Send writes a frame.
func (w *Writer) Send(kind byte, data []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Write(w.w, kind, data)
}

// SendJSON writes a frame with a message.
func (w *Writer) SendJSON(kind byte, message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return w.Send(kind, text)
}

// Stream returns a writer whose bytes become frames of a kind.
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
	for {
		kind, data, err := Read(from)
		if err == nil && kind != In {
			err = fmt.Errorf("a frame of kind %d for standard input", kind)
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

// Output writes the frames of a command's output until the last frame, and decodes that into end.
func Output(from io.Reader, stdout, stderr io.Writer, end any) error {
	for {
		kind, data, err := Read(from)
		if err != nil {
			return err
		}
		var to io.Writer
		switch kind {
		case Out:
			to = stdout
		case Err:
			to = stderr
		case Last:
			return json.Unmarshal(data, end)
		default:
			return fmt.Errorf("a frame of kind %d for output", kind)
		}
		if to == nil {
			continue
		}
		if _, err := to.Write(data); err != nil {
			return fmt.Errorf("pass output on: %w", err)
		}
	}
}
