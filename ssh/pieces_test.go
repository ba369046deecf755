package ssh

import "testing"

func TestPiecesFollowTheStream(t *testing.T) {
	var p pieces
	if got := len(p.next(0)); got != leastPiece {
		t.Errorf("the first piece is %d", got)
	}
	for range 7 { // a job with libraries in it
		p.next(leastPiece)
	}
	if got := len(p.next(100)); got != leastPiece {
		t.Errorf("after one large message, pieces are %d", got)
	}
	for range 4 * fastStream { // frames of output that are a little larger than a packet
		p.next(len(p.buf))
		p.next(len(p.buf))
		p.next(12)
	}
	if got := len(p.next(mostPiece)); got != mostPiece {
		t.Errorf("pieces of a fast stream are %d", got)
	}
	for range fastStream {
		p.next(20)
	}
	if got := len(p.next(20)); got != leastPiece {
		t.Errorf("after heartbeats, pieces are %d", got)
	}
}
