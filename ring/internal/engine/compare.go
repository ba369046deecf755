package engine

import (
	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/flow"
	"github.com/gorun/gorun/ring/internal/tcp"
)

// Compare reports whether two ranks in these calls can finish together, and if not, which one is
// later.
func Compare(mine, theirs *flow.Sign) tcp.Relation {
	a, aerr := collective.Decode(mine)
	b, berr := collective.Decode(theirs)
	if aerr != nil || berr != nil {
		return tcp.Clash
	}
	first := collective.Order(&a)
	second := collective.Order(&b)
	switch {
	case first < second:
		return tcp.Later
	case first > second:
		return tcp.Earlier
	}
	switch a.Kind {
	case collective.Message:
		return tcp.Together
	case collective.Gather, collective.Scatter, collective.AllToAll:
		a.Count = 0
		b.Count = 0 // counts differ by pair of ranks
	}
	if a != b {
		return tcp.Clash
	}
	return tcp.Together
}
