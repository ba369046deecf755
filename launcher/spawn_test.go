package launcher

import (
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/launcher/session"
)

// What a host gives the ranks that it spawns on itself does not fill the queues of other hosts.
func TestOtherHostsGetOutlines(t *testing.T) {
	large := make([]byte, 1<<20)
	program := wire.SpawnProgram{Argv: wire.Texts{"a", string(large)}, Ranks: 2}
	w := wire.World{
		Programs: []wire.SpawnProgram{program, program},
		Given:    map[string][]byte{"k": large},
		Numbers:  []int{3, 4, 5, 6},
		HostOf:   []int{0, 0, 0, 0},
	}
	n := len(session.Encode(outline(w)))
	check.That(t, n <= 1<<10, "%d bytes for hosts without a rank of it", n)
	p := outline(w).Programs
	check.That(t, len(p) == 2 && p[1].Ranks == 2 && len(w.Programs[1].Argv) == 2 && w.Given != nil, "%+v of %+v", p, w)
}
