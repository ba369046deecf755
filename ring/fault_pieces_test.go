package ring_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/ringtest"
)

// R12: between two ranks every byte travels by itself, from their handshake on; or there is little room on the way, so that both
// write in parts and are told to come again. All calls give what they should.
func TestR12OneByteSegments(t *testing.T) {
	for _, tt := range []struct {
		name     string
		piece, n int
		forms    []string // nil: all
	}{{"a byte at a time", 1, 100, nil}, {"little room", 1000, 40_000, []string{"allreduce", "alltoall"}}} {
		for _, more := range []string{unguarded, "RING_CHECKSUM=1", "GORUN_ENCRYPT=1"} {
			t.Run(tt.name+" "+more, func(t *testing.T) {
				t.Parallel()
				g := pairOf(more)
				d, m := g.door(t), newMiddleman(t)
				m.piece = tt.piece
				m.between(d, 1)
				comms := g.join(t, d)
				begun := time.Now()
				for _, f := range forms() {
					if tt.forms != nil && !slices.Contains(tt.forms, f.name) {
						continue
					}
					for _, do := range []way{plainly, started} {
						err := ringtest.Each(2, func(rank int) error { return f.once(comms[rank], seat{n: tt.n}, do) })
						if err != nil {
							t.Fatalf("%s: %v", f.name, err)
						}
					}
				}
				closeAll(comms)
				m.end()
				t.Logf("%d bytes in %v", m.heard.Len(), time.Since(begun))
				if m.heard.Len() < 4*4*tt.n { // two calls, each way
					t.Errorf("only %d bytes came by", m.heard.Len())
				}
			})
		}
	}
}
