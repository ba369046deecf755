package secure

import (
	"bytes"
	"testing"
)

// FuzzTranscript puts a handshake together from pieces of a good one, said by either side, with
// nonces that are fresh or not. Only what was said to a side, in its order and under its nonce, is accepted: nothing
// reflected, repeated, left out or swapped. A stranger gets no answer.
func FuzzTranscript(f *testing.F) {
	dialer, acceptor, dialed, accepted := record(f)
	frame := helloSize + macSize
	pieces := [][]byte{dialed[:frame], dialed[frame:], accepted[:frame], accepted[frame:], dialed[:helloSize], accepted[:helloSize],
		dialed[helloSize:frame], accepted[helloSize:frame], bytes.Repeat([]byte{0}, macSize)}
	f.Add([]byte{0, 1}, true, false)
	f.Add([]byte{2, 3}, false, false)
	f.Add([]byte{0, 1}, false, false) // each side's own words
	f.Add([]byte{2, 3}, true, false)
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
		d, a := *dialer, *acceptor
		good := accepted
		if dialing {
			good = dialed
		}
		if fresh {
			d.random, a.random = constant(8), constant(9)
		}
		answers := &recorder{ReadWriter: tape{bytes.NewReader(said)}}
		var err error
		if dialing {
			_, err = a.accept(answers, everyone)
		} else {
			err = d.dial(answers, 1, 0)
		}
		// What stands behind the last word is not the handshake's.
		if want := !fresh && bytes.HasPrefix(said, good); want != (err == nil) {
			t.Fatalf("%v: accepted is %v, want %v", order, err == nil, want)
		}
		if dialing && !bytes.HasPrefix(said, dialed[:frame]) && answers.sent.Len() > 0 {
			t.Fatalf("%v: a stranger is answered with %d bytes", order, answers.sent.Len())
		}
	})
}
