package tcp

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// A rank closes while a note to it is unread: the kernel drops unsent data, except data
// that Deliver has waited for.
func TestDeliverPastANote(t *testing.T) {
	must.HaveTime(t)
	onEveryGuard(t, func(t *testing.T, guard secure.Guard) {
		nets := waiters(t, guard, 2)
		linkUp(t, nets)
		out := payload(32 << 20)
		in := make([]byte, len(out))
		errs := each(nets, func(rank int, n *Net) error {
			if rank == 1 {
				return n.Run(receiving(numbered(1, 1), 0, in))
			}
			time.Sleep(2 * tick)
			err := n.Run(sending(numbered(1, 1), 1, out))
			n.Deliver()
			return errors.Join(err, n.Close())
		})
		err := errors.Join(errs...)
		check.That(t, err == nil && bytes.Equal(in, out), "received other bytes, %v", err)
	})
}

// A note to a rank that has sent all its data and left is no error.
func TestNoteToARankThatHasLeft(t *testing.T) {
	onEveryGuard(t, func(t *testing.T, guard secure.Guard) {
		nets := waiters(t, guard, 2)
		linkUp(t, nets)
		out := payload(1000)
		must.OK(t, nets[0].Run(sending(numbered(1, 1), 1, out)))
		nets[0].Close()
		in := make([]byte, len(out))
		f := receiving(numbered(1, 1), 0, in)
		for range 3 { // a reset answers the first
			nets[1].flows++
			must.OK(t, nets[1].sendNote(nets[1].links[0], f))
			time.Sleep(10 * time.Millisecond)
		}
		err := nets[1].Run(f)
		check.That(t, err == nil && bytes.Equal(in, out), "received other bytes, %v", err)
		closedBy(t, "one flow more", nets[1].Run(f), 0)
	})
}
