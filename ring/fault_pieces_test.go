package ring_test

import (
	"testing"

	"github.com/gorun/gorun/internal/test/ringtest"
)

// R12: between two ranks every byte travels by itself, from their handshake on. All calls give what they should.
func TestR12OneByteSegments(t *testing.T) {
	for _, more := range []string{unguarded, "RING_CHECKSUM=1", "GORUN_ENCRYPT=1"} {
		t.Run(more, func(t *testing.T) {
			t.Parallel()
			g := pairOf(more)
			d, m := g.door(t), newMiddleman(t)
			m.single = true
			m.between(d, 1)
			comms := g.join(t, d)
			for _, f := range forms() {
				for _, do := range []way{plainly, started} {
					err := ringtest.Each(2, func(rank int) error { return f.once(comms[rank], seat{n: 100}, do) })
					if err != nil {
						t.Fatalf("%s: %v", f.name, err)
					}
				}
			}
			closeAll(comms)
			m.end()
			if m.heard.Len() < 10_000 {
				t.Errorf("only %d bytes came by", m.heard.Len())
			}
		})
	}
}
