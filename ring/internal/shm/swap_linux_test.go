package shm

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/gorun/gorun/internal/test/check"
)

func bytesAt(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// plan is a program of Swaps that all ranks know: in every round, the destination, source and
// length of each rank's message.
type plan struct {
	to      [][]int // by round and rank; None
	from    [][]int
	lengths [][]int // of what the rank sends
}

// shuffled returns a random plan: shifts, permutations, and partial ones in which some ranks
// only send, only receive, or do neither.
func shuffled(r *rand.Rand, size, rounds int) plan {
	var p plan
	for range rounds {
		to := r.Perm(size)
		if r.IntN(2) == 0 {
			shift := r.IntN(size)
			for q := range to {
				to[q] = (q + shift) % size
			}
		}
		partial := r.IntN(3) == 0
		from := make([]int, size)
		lengths := make([]int, size)
		for q := range from {
			from[q] = None
		}
		for q := range to {
			if to[q] == q || partial && r.IntN(2) == 0 {
				to[q] = None
				continue
			}
			from[to[q]] = q
			switch r.IntN(4) {
			case 0:
				lengths[q] = r.IntN(inline + 2)
			case 1:
				lengths[q] = boxSize*r.IntN(6) + r.IntN(3)
			default:
				lengths[q] = r.IntN(300 << 10)
			}
		}
		p.to = append(p.to, to)
		p.from = append(p.from, from)
		p.lengths = append(p.lengths, lengths)
	}
	return p
}

// A program of Swaps in the same order on all ranks ends, and delivers the right bytes.
func TestRandomSwaps(t *testing.T) {
	source := noise(1, 400<<10)
	for seed := range uint64(12) {
		size := 2 + int(seed)%5
		p := shuffled(rand.New(rand.NewPCG(seed, 3)), size, 40)
		each(t, size, func(g *Group) {
			for round := range p.to {
				to := p.to[round][g.rank]
				from := p.from[round][g.rank]
				var out, in, want []byte
				if to != None {
					out = source[g.rank+round:][:p.lengths[round][g.rank]]
				}
				if from != None {
					want = source[from+round:][:p.lengths[round][from]]
					in = make([]byte, len(want))
				}
				if err := g.Swap(uint64(round), to, bytesAt(out), len(out), from, bytesAt(in), len(in)); err != nil {
					t.Errorf("seed %d, round %d, rank %d: %v", seed, round, g.rank, err)
					return
				}
				if !bytes.Equal(in, want) {
					t.Errorf("seed %d, round %d: rank %d got wrong bytes from %d", seed, round, g.rank, from)
					return
				}
			}
		})
	}
}

// The halves of a Swap are independent: one end may send and then receive while the other does
// both at once, and more data may be in transit than the boxes hold.
func TestHalvesOfASwapAreIndependent(t *testing.T) {
	const n = 3*boxes*boxSize + 5
	each(t, 2, func(g *Group) {
		out := noise(uint64(g.rank), n)
		in := make([]byte, n)
		var err error
		if g.rank == 0 {
			err = errors.Join(g.Swap(1, 1, bytesAt(out), n, None, nil, 0), g.Swap(1, None, nil, 0, 1, bytesAt(in), n))
		} else {
			err = g.Swap(1, 0, bytesAt(out), n, 0, bytesAt(in), n)
		}
		check.That(t, err == nil && bytes.Equal(in, noise(uint64(1-g.rank), n)),
			"rank %d: err %v, or wrong bytes", g.rank, err)
	})
}

// A Swap returns while the rank's messages to others are still in the outbox.
func TestSmallMessagesNeedNoReader(t *testing.T) {
	const ranks = 4
	each(t, ranks, func(g *Group) {
		word := []byte{byte(g.rank)}
		if g.rank == 0 {
			for q := 1; q < ranks; q++ {
				check.OK(t, g.Swap(1, q, bytesAt(word), 1, None, nil, 0))
			}
		}
		if err := g.Barrier(2); err != nil { // after which rank 0 has sent, and nobody received
			t.Error(err)
		}
		if g.rank > 0 {
			err := g.Swap(1, None, nil, 0, 0, bytesAt(word), 1)
			check.That(t, err == nil && word[0] == 0, "rank %d got %d, err %v", g.rank, word[0], err)
		}
	})
}

// A lentBox of a box must not be taken for another after 2^31 messages that need no box.
func TestBoxesComeBackAfterManyTinyMessages(t *testing.T) {
	const n = boxes * boxSize
	each(t, 2, func(g *Group) {
		big := make([]byte, n)
		tiny := make([]byte, 1)
		other := 1 - g.rank
		swap := func(b []byte) {
			in := make([]byte, len(b))
			check.OK(t, g.Swap(1, other, bytesAt(b), len(b), other, bytesAt(in), len(b)))
		}
		swap(big)
		swap(tiny)
		check.OK(t, g.Barrier(1))
		// As after many more messages.
		const many = 1<<31 + 5
		g.posted[other] += many
		g.taken[other] += many
		g.seg.pair(g.rank, other).posted.Store(g.posted[other])
		g.seg.pair(g.rank, other).taken.Store(g.taken[other])
		check.OK(t, g.Barrier(1))
		swap(big)
		swap(big)
	})
}

func TestSwapMismatchIsAnError(t *testing.T) {
	tests := []struct {
		what           string
		sent, expected int
		signs          [2]uint64
		want           func(error) bool
	}{
		{"tiny for large", 1, 100, [2]uint64{1, 1}, isLength(1, 100)},
		{"large for tiny", 100, 1, [2]uint64{1, 1}, isLength(100, 1)},
		{"nothing for something", 0, 5, [2]uint64{1, 1}, isLength(0, 5)},
		{"blocks", boxSize, 2 * boxSize, [2]uint64{1, 1}, isLength(boxSize, 2*boxSize)},
		{"another call", 5, 5, [2]uint64{1, 2}, func(err error) bool {
			var e *SignError
			return errors.As(err, &e) && *e == SignError{Rank: 0, Mine: 2, Theirs: 1}
		}},
	}
	for _, tt := range tests {
		var broken atomic.Bool
		run(t, 2, &broken, func(g *Group) {
			b := make([]byte, max(tt.sent, tt.expected))
			if g.rank == 0 {
				check.OK(t, g.Swap(tt.signs[0], 1, bytesAt(b), tt.sent, None, nil, 0), tt.what, "the sender")
				return
			}
			err := g.Swap(tt.signs[1], None, nil, 0, 0, bytesAt(b), tt.expected)
			check.That(t, tt.want(err), "%s: %v", tt.what, err)
		})
	}
}

func isLength(theirs, mine int) func(error) bool {
	return func(err error) bool {
		var e *LengthError
		return errors.As(err, &e) && *e == LengthError{Rank: 0, Mine: mine, Theirs: theirs}
	}
}

func TestBriefTellsLengthAndBox(t *testing.T) {
	seen := map[uint32]bool{}
	for _, length := range []int{0, 1, inline, 1 << 20, briefMost - 1, briefMost} {
		for box := range boxes {
			b := briefOf(length, box)
			check.That(t, !seen[b] && int(b%boxes) == box,
				"%d bytes from box %d: brief %x says something else", length, box, b)
			seen[b] = true
		}
	}
	check.That(t, briefOf(briefMost, 1) == briefOf(math.MaxInt, 1),
		"longer messages have briefs of their own, of which there are no more")
}
