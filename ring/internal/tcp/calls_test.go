package tcp

import (
	"errors"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/flow"
)

// numbered returns the sign of a call with a number and a kind.
func numbered(number, kind byte) *flow.Sign { return &flow.Sign{0: number, 1: kind} }

// compareNumbered compares signs made by numbered.
func compareNumbered(mine, theirs *flow.Sign) Relation {
	switch {
	case mine[0] < theirs[0]:
		return Later
	case mine[0] > theirs[0]:
		return Earlier
	case mine[1] != theirs[1]:
		return Clash
	}
	return Together
}

func waiters(t *testing.T, guard secure.Guard, size int) []*Net {
	nets := guardedWorld(t, guard, size, 1)
	for _, n := range nets {
		n.cfg.Compare = compareNumbered
	}
	return nets
}

// A late rank gets a note before the flow, and takes part in the flow all the same. So does one
// that sent its data before the note.
func TestLateRankIsNotInDoubt(t *testing.T) {
	must.HaveTime(t)
	onEveryGuard(t, func(t *testing.T, guard secure.Guard) {
		nets := waiters(t, guard, 2)
		hello := []byte("hello")
		for round := range byte(3) {
			got := make([]byte, len(hello))
			errs := each(nets, func(rank int, n *Net) error {
				mine := numbered(round, 1)
				if rank == 1 {
					return errors.Join(
						n.Run(receiving(mine, 0, got)),
						n.Run(sending(mine, 0, hello)),
					)
				}
				time.Sleep(2 * tick)
				back := make([]byte, len(hello))
				return errors.Join(
					n.Run(sending(mine, 1, hello)),
					n.Run(receiving(mine, 1, back)),
				)
			})
			err := errors.Join(errs...)
			must.That(t, err == nil && string(got) == "hello", "round %d: got %q, error %v", round, got, err)
		}
	})
}
