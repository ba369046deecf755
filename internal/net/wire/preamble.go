package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// StartDirectory is the variable that names the directory in which an agent is to start.
// launcher/session/start.sh sets it.
const StartDirectory = "GORUN_START_DIR"

// MaxNoise bounds the bytes that a login shell may print before the preamble.
const MaxNoise = 64 << 10

// Preamble is the line an agent writes before its first frame. It starts with
// a NUL byte, which no start file prints by accident, and holds the nonce.
func Preamble(nonce string) []byte { return []byte("\x00gorun-agent " + nonce + "\n") }

// StartMark is the line that the start script prints first (launcher/session/start.sh). It shows
// that the account runs commands.
func StartMark(nonce string) []byte { return []byte("gorun-start " + nonce + "\n") }

// NoiseError reports that the preamble did not come: the stream ended, or more
// than MaxNoise bytes came before it. Noise holds what came, without the start mark.
type NoiseError struct {
	Noise   []byte
	Started bool  // whether the start mark came
	Err     error // cause of the end of the search
}

func (e *NoiseError) Error() string {
	if len(e.Noise) == 0 {
		return fmt.Sprintf("no agent answered: %v", e.Err)
	}
	return fmt.Sprintf("no agent answered: %v, after %q", e.Err, e.Noise[:min(len(e.Noise), 200)])
}

func (e *NoiseError) Unwrap() error { return e.Err }

// ErrTooNoisy is the cause in a NoiseError after more than MaxNoise bytes.
var ErrTooNoisy = errors.New("the login shell printed more than 64 KiB before gorun started")

// FindPreamble reads r up to and including the preamble with nonce and returns
// the noise that came before it. It reads byte by byte from small buffers and
// never past the preamble, so r is then at the first frame.
func FindPreamble(r io.Reader, nonce string) (noise []byte, err error) {
	want := Preamble(nonce)
	var seen []byte
	for {
		// No preamble can be complete before this many more bytes have come.
		need := len(want) - overlap(seen, want)
		start := len(seen)
		seen = append(seen, make([]byte, need)...)
		n, err := io.ReadFull(r, seen[start:])
		seen = seen[:start+n]
		if bytes.HasSuffix(seen, want) {
			return seen[:len(seen)-len(want)], nil
		}
		if err == nil && len(seen) > MaxNoise+len(want) {
			err = ErrTooNoisy
		}
		if err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				err = io.EOF
			}
			before, after, started := bytes.Cut(seen, StartMark(nonce))
			return nil, &NoiseError{Noise: append(before, after...), Started: started, Err: err}
		}
	}
}

// overlap returns the length of the longest suffix of seen that is a prefix of want.
func overlap(seen, want []byte) int {
	for n := min(len(seen), len(want)); n > 0; n-- {
		if bytes.HasPrefix(want, seen[len(seen)-n:]) {
			return n
		}
	}
	return 0
}
