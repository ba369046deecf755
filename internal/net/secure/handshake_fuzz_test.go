package secure

import (
	"bytes"
	"testing"

	"github.com/gorun/gorun/internal/test/must"
)

// FuzzTranscript assembles a handshake from pieces of valid ones, of either side, with nonces that
// are fresh or not. A side accepts only the messages meant for it, in order and under its nonce:
// none reflected, repeated, omitted or swapped. A stranger gets no answer.
func FuzzTranscript(f *testing.F) {
	dialer, acceptor, dialed, accepted := record(f)
	frame := helloSize + macSize
	pieces := [][]byte{dialed[:frame], dialed[frame:], accepted[:frame], accepted[frame:], dialed[:helloSize],
		accepted[:helloSize],
		dialed[helloSize:frame], accepted[helloSize:frame], bytes.Repeat([]byte{0}, macSize)}
	f.Add([]byte{0, 1}, true, false)
	f.Add([]byte{2, 3}, false, false)
	f.Add([]byte{0, 1}, false, false) // each side's own messages
	f.Add([]byte{2, 3}, true, false)
	f.Add([]byte{0, 7}, true, false) // the acceptor's MAC in place of the proof
	f.Add([]byte{0, 1}, true, true)
	f.Add([]byte{2, 3}, false, true)
	f.Add([]byte{4, 7, 1}, true, false)
	f.Add([]byte{0, 3}, true, false)
	f.Add([]byte{5, 6, 3}, false, false)
	f.Fuzz(func(t *testing.T, order []byte, dialing, fresh bool) {
		var said []byte
		for _, i := range order[:min(len(order), 8)] {
			said = append(said, pieces[int(i)%len(pieces)]...)
		}
		d := *dialer
		a := *acceptor
		good := accepted
		if dialing {
			good = dialed
		}
		if fresh {
			d.random = constant(8)
			a.random = constant(9)
		}
		answers := &recorder{ReadWriter: tape{bytes.NewReader(said)}}
		var err error
		if dialing {
			_, err = a.accept(answers, everyone)
		} else {
			err = d.dial(answers, 1, 0)
		}
		// Bytes after the last message do not belong to the handshake.
		must.Equal(t, !fresh && bytes.HasPrefix(said, good), (err == nil), order, "accepted is", err == nil, "want")
		if dialing && !bytes.HasPrefix(said, dialed[:frame]) && answers.sent.Len() > 0 {
			t.Fatalf("%v: a stranger is answered with %d bytes", order, answers.sent.Len())
		}
	})
}
