package tcp

import (
	"errors"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/secure"
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

// Every rank waits for the next one and sends nothing, and the last one is in another call.
// The first rank that detects this ends the others' calls.
func TestRanksInDifferentCallsFindOut(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	onEveryGuard(t, func(t *testing.T, guard secure.Guard) {
		tests := map[string]*flow.Sign{"clash": numbered(5, 2), "earlier": numbered(4, 1), "later": numbered(6, 1)}
		for name, odd := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				const size = 4
				nets := waiters(t, guard, size)
				for _, to := range []int{1, 2, 3} { // all are linked
					for from := range size {
						run(t, []*Net{nets[from], nets[(from+to)%size]}, []*flow.Flow{
							{Sign: numbered(1, 1), To: (from + to) % size, From: flow.None},
							{Sign: numbered(1, 1), To: flow.None, From: from},
						})
					}
				}
				begun := time.Now()
				errs := each(nets, func(rank int, n *Net) error {
					sign := numbered(5, 1)
					if rank == size-1 {
						sign = odd
					}
					err := n.Run(&flow.Flow{Sign: sign, To: flow.None, From: (rank + 1) % size})
					for _, other := range nets {
						other.Interrupt()
					}
					return err
				})
				if took := time.Since(begun); took > 5*time.Second {
					t.Errorf("took %v", took)
				}
				seen := new(SignError)
				if err := errors.Join(errs...); !errors.As(err, &seen) {
					t.Fatalf("nobody saw the difference: %v", err)
				}
				if seen.Theirs[mark] != 0 {
					t.Error("the sign is marked as a note")
				}
			})
		}
	})
}

// A late rank gets a note before the flow, and takes part in the flow all the same. So does one
// that sent its data before the note.
func TestLateRankIsNotInDoubt(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	onEveryGuard(t, func(t *testing.T, guard secure.Guard) {
		nets := waiters(t, guard, 2)
		hello := []byte("hello")
		for round := range byte(3) {
			got := make([]byte, len(hello))
			errs := each(nets, func(rank int, n *Net) error {
				mine := numbered(round, 1)
				if rank == 1 {
					return errors.Join(
						n.Run(&flow.Flow{
							Sign: mine,
							To:   flow.None,
							From: 0,
							Recv: []flow.Part{{Into: got}},
						}),
						n.Run(&flow.Flow{
							Sign: mine,
							To:   0,
							From: flow.None,
							Send: [][]byte{hello},
							Lead: 1,
						}),
					)
				}
				time.Sleep(2 * tick)
				back := make([]byte, len(hello))
				return errors.Join(
					n.Run(&flow.Flow{
						Sign: mine,
						To:   1,
						From: flow.None,
						Send: [][]byte{hello},
						Lead: 1,
					}),
					n.Run(&flow.Flow{
						Sign: mine,
						To:   flow.None,
						From: 1,
						Recv: []flow.Part{{Into: back}},
					}),
				)
			})
			if err := errors.Join(errs...); err != nil || string(got) != "hello" {
				t.Fatalf("round %d: got %q, error %v", round, got, err)
			}
		}
	})
}
