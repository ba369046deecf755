package algorithms

import (
	"math/bits"

	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/flow"
)

// AllToAll sends a block to every member and receives one from each. A block is as many pieces as
// there are for each member: those for member 0 come first in out, and those from member 0 in in.
// All pieces have the same length, on all members. In and out do not overlap.
func (t *Team) AllToAll(sign *flow.Sign, in, out [][]byte) error {
	x := exchange{
		t:      t,
		in:     in,
		out:    out,
		pieces: len(in) / t.Size(),
		length: len(in[0]),
	}
	for i, piece := range x.block(in, 0) {
		copy(piece, x.block(out, 0)[i])
	}
	if t.choose(collective.AllToAll, len(in)*x.length, 0) == Circulant {
		return x.relayed(sign)
	}
	return x.direct(sign)
}

// exchange is one all-to-all.
type exchange struct {
	t       *Team
	in, out [][]byte
	pieces  int // pieces of a block
	length  int // bytes of a piece
	room    []byte
}

// block returns the pieces of the member so many numbers after this one.
func (x *exchange) block(pieces [][]byte, distance int) [][]byte {
	first := x.t.away(distance) * x.pieces
	return pieces[first : first+x.pieces]
}

// direct sends to the member at each distance in turn, and receives from the one as far the other
// way: every member has one block to send and one to receive at a time.
func (x *exchange) direct(sign *flow.Sign) error {
	for distance := 1; distance < x.t.Size(); distance++ {
		f := x.t.begin(sign, x.t.away(distance), x.t.away(-distance))
		for _, piece := range x.block(x.out, distance) {
			lead(f, piece)
		}
		for _, piece := range x.block(x.in, -distance) {
			f.Recv = append(f.Recv, flow.Part{Into: piece})
		}
		if err := x.t.run(f); err != nil {
			return err
		}
	}
	return nil
}

// relayed sends the block for the member at distance i in as many hops as i has bits set, each as
// long as one of the bits. All blocks that make a hop go together.
func (x *exchange) relayed(sign *flow.Sign) error {
	n := x.t.Size()
	if n > 2 {
		x.room = x.t.room(2 * n * x.pieces * x.length)
	}
	for hop := 1; hop < n; hop *= 2 {
		f := x.t.begin(sign, x.t.away(hop), x.t.away(-hop))
		for i := hop; i < n; i++ {
			if i&hop == 0 {
				continue
			}
			for piece := range x.pieces {
				lead(f, x.before(i, hop, piece))
				f.Recv = append(f.Recv, flow.Part{Into: x.after(i, hop, piece)})
			}
		}
		if err := x.t.run(f); err != nil {
			return err
		}
	}
	return nil
}

// before returns where a piece that goes to distance i is before a hop.
func (x *exchange) before(i, hop, piece int) []byte {
	if made := i & (hop - 1); made > 0 {
		return x.onTheWay(i, made, piece)
	}
	return x.block(x.out, i)[piece]
}

// after returns the place for a piece of another member that goes to distance i, after the same
// hop.
func (x *exchange) after(i, hop, piece int) []byte {
	if made := i & (2*hop - 1); made != i {
		return x.onTheWay(i, made, piece)
	}
	return x.block(x.in, -i)[piece]
}

// onTheWay returns scratch memory for a piece that has made some hops: it has two places, in turns,
// since it leaves one while another member's piece comes into the other.
func (x *exchange) onTheWay(i, made, piece int) []byte {
	place := bits.OnesCount(uint(made)) % 2
	return x.room[((place*x.t.Size()+i)*x.pieces+piece)*x.length:][:x.length]
}
