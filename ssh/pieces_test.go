package ssh

import (
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestPiecesFollowTheStream(t *testing.T) {
	var p pieces
	check.Equal(t, len(p.next(0)), leastPiece, "the first piece")
	for range 7 { // a job with libraries in it
		p.next(leastPiece)
	}
	check.Equal(t, len(p.next(100)), leastPiece, "after one large message, pieces are")
	for range 4 * fastStream { // frames of output that are a little larger than a packet
		p.next(len(p.buf))
		p.next(len(p.buf))
		p.next(12)
	}
	check.Equal(t, len(p.next(mostPiece)), mostPiece, "pieces of a fast stream are")
	for range fastStream {
		p.next(20)
	}
	check.Equal(t, len(p.next(20)), leastPiece, "after heartbeats, pieces are")
}
