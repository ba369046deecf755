package rails

import (
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// A rank that sends without end what brings the stream no further, or more than is wanted, is not
// received without end in one call, for which Wake would wait.
func TestCallsTakeABoundedPartOfAFlood(t *testing.T) {
	// Segments are tiny, so that to receive them takes longer than to send them.
	const round = 50_000
	const rounds = 60
	segments := func(size int, offset func(n uint64) uint64) func(number uint64) []byte {
		return func(number uint64) []byte {
			var head [headerSize]byte
			text := make([]byte, 0, round*(headerSize+size))
			for i := range uint64(round) {
				header{off: offset(number*round + i), size: size}.encode(&head)
				text = append(text, head[:]...)
				text = append(text, make([]byte, size)...)
			}
			return text
		}
	}
	acks := segments(0, func(uint64) uint64 { return 0 })
	again := segments(1, func(uint64) uint64 { return 0 })
	ahead := segments(1, func(uint64) uint64 { return 1 })
	data := segments(1, func(n uint64) uint64 { return n })
	b := make([]byte, maxSegment)
	receive := func(s *Stream) { _, _ = s.Recv(b) }
	peek := func(s *Stream) { _, _ = s.Peek(b[:1]) }
	discard := func(s *Stream) { s.Discard(nil) }
	for name, flood := range map[string]struct {
		text func(number uint64) []byte
		call func(s *Stream)
	}{
		"acknowledgements are received":    {acks, receive},
		"acknowledgements are peeked over": {acks, peek},
		"acknowledgements are discarded":   {acks, discard},
		"what came before is received":     {again, receive},
		"what came before is discarded":    {again, discard},
		"what lies ahead is received":      {ahead, receive},
		"what nobody wants is discarded":   {data, discard},
	} {
		t.Run(name, func(t *testing.T) {
			first, far := connect(t)
			s := must.Get(New(first, Config{Rails: 1, First: -1}))(t)
			defer s.Close()
			write := func() (sum int) {
				for number := range uint64(rounds) {
					n, _ := far.Write(flood.text(number))
					sum += n
				}
				return sum
			}
			most := lab.MostTaken(t, first.FD, write, func() { flood.call(s) })
			check.That(t, most <= maxTurn, "a call took %d bytes", most)
		})
	}
}
