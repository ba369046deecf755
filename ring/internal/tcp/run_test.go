package tcp

import (
	"bytes"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/flow"
)

// TestEveryAlgorithm of package ring carries all kinds of flows, with every guard and stripes.

func TestFlowOfNothing(t *testing.T) {
	nets := world(t, 2, 2)
	check.OK(t, nets[0].Run(&flow.Flow{Sign: new(flow.Sign), To: flow.None, From: flow.None}))
	both := []*flow.Flow{{Sign: &flow.Sign{9}, To: 1, From: flow.None}, {Sign: &flow.Sign{9}, To: flow.None, From: 0}}
	run(t, nets, both)
	both[0].Sign = &flow.Sign{8} // the sign alone is compared as well
	errs := each(nets, func(rank int, n *Net) error { return n.Run(both[rank]) })
	var sign *SignError
	check.That(t, errs[0] == nil && errors.As(errs[1], &sign) && sign.Rank == 0 && sign.Theirs == *both[0].Sign,
		"signs differ: %v", errs)
}

// The kernel accepts a few kilobytes at a time, so that each chunk is written in parts. R12 of
// the fault matrix.
func TestWritesInParts(t *testing.T) {
	onEveryGuard(t, func(t *testing.T, guard secure.Guard) {
		const size = 256 << 10
		nets := guardedWorld(t, guard, 2, 2)
		linkUp(t, nets)
		for rank, n := range nets {
			for _, s := range n.links[1-rank].conns {
				// the least it has
				must.OK(t, unix.SetsockoptInt(s.(socket).FD, unix.SOL_SOCKET, unix.SO_SNDBUF, 1))
			}
		}
		out := [2][]byte{payload(size), bytes.Repeat([]byte("back"), size/4)}
		in := [2][]byte{make([]byte, size), make([]byte, size)}
		run(t, nets, []*flow.Flow{exchange(1, out[0], in[0]), exchange(0, out[1], in[1])})
		check.That(t, bytes.Equal(in[0], out[1]) && bytes.Equal(in[1], out[0]), "what comes is not what was sent")
	})
}
