package tcp

import (
	"bytes"
	"testing"
	"time"

	"github.com/gorun/gorun/ring/internal/flow"
)

func TestVerdict(t *testing.T) {
	const long, short = silence, silence - 100*time.Millisecond
	for name, c := range map[string]struct {
		health
		dead bool
	}{
		"idle":                             {health{lastHeard: time.Hour}, false},
		"sent just now":                    {health{outstanding: 9, lastHeard: time.Hour}, false},
		"acknowledges late":                {health{outstanding: 9, retries: 4, lastHeard: short}, false},
		"acknowledges nothing":             {health{outstanding: 9, retries: 4, lastHeard: long}, true},
		"lost a segment after a silence":   {health{outstanding: 1, retries: 2, lastHeard: time.Hour}, false},
		"lost many, and answers":           {health{outstanding: 1, retries: 9, lastHeard: time.Millisecond}, false},
		"does not read, and answers":       {health{probes: 0, lastHeard: 20 * time.Second}, false},
		"a probe is under way":             {health{probes: 2, lastHeard: 20 * time.Second}, false},
		"does not answer probes":           {health{probes: 3, lastHeard: long}, true},
		"does not answer probes for short": {health{probes: 3, lastHeard: short}, false},
		"retried what was acknowledged":    {health{retries: 3, lastHeard: long}, false},
	} {
		if err := c.verdict(); (err != nil) != c.dead {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A rank that does not read for longer than silence does not break the link, however much is
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
		return nets[0].Run(&flow.Flow{Sign: &flow.Sign{1}, To: 1, From: flow.None, Lead: 1, Send: [][]byte{out}})
	})
	select {
	case err := <-sent:
		t.Fatalf("sent without anybody reading, %v", err)
	case <-time.After(7 * time.Second):
	}
	err := nets[1].Run(&flow.Flow{Sign: &flow.Sign{1}, To: flow.None, From: 0, Recv: []flow.Part{{Into: in}}})
	if err != nil || !bytes.Equal(in, out) {
		t.Errorf("received other bytes, %v", err)
	}
	if err := within(t, soon, "the end", sent); err != nil {
		t.Error(err)
	}
}
