package tcp

import (
	"bytes"
	"testing"
	"time"

	"github.com/gorun/gorun/ring/internal/flow"
)

// A rank that does not read for longer than secure.Silence does not break the link, however much is
// sent to it.
func TestPeerDoesNotRead(t *testing.T) {
	if testing.Short() {
		t.Skip("takes many seconds")
	}
	t.Parallel()
	nets := world(t, 2, 2)
	linkUp(t, nets)
	out := noise(1, 64<<20)
	in := make([]byte, len(out))
	sent := started(func() error {
		return nets[0].Run(sending(&flow.Sign{1}, 1, out))
	})
	select {
	case err := <-sent:
		t.Fatalf("sent without anybody reading, %v", err)
	case <-time.After(7 * time.Second):
	}
	err := nets[1].Run(receiving(&flow.Sign{1}, 0, in))
	if err != nil || !bytes.Equal(in, out) {
		t.Errorf("received other bytes, %v", err)
	}
	if err := within(t, soon, "the end", sent); err != nil {
		t.Error(err)
	}
}
