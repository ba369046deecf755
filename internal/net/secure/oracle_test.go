package secure

import (
	"bytes"
	"errors"
	"testing"
)

// A peer that cannot prove the key gets nothing that depends on it: a dialer gets no byte, an
// acceptor only the dialer's hello. Every byte of every MAC counts. S4 of the fault matrix.
func TestStrangersAreNoOracle(t *testing.T) {
	dialer, acceptor, dialed, accepted := record(t)
	for i := range macSize {
		bad := bytes.Clone(dialed)
		bad[helloSize+i] ^= 1
		heard := &recorder{ReadWriter: tape{bytes.NewReader(bad)}}
		if _, err := acceptor.accept(heard, everyone); !errors.Is(err, ErrRefused) || heard.sent.Len() > 0 {
			t.Errorf("a dialer with a wrong byte %d of its MAC heard %d bytes, %v", i, heard.sent.Len(), err)
		}
		bad = bytes.Clone(accepted)
		bad[helloSize+i] ^= 1
		heard = &recorder{ReadWriter: tape{bytes.NewReader(bad)}}
		if err := dialer.dial(heard, 1, 0); !errors.Is(err, ErrRefused) || heard.sent.Len() != helloSize+macSize {
			t.Errorf("an answerer with a wrong byte %d of its MAC heard %d bytes, %v", i, heard.sent.Len(), err)
		}
	}
}
