// Package stall decides when a rank's call has stalled, which ranks have not reached the call, and
// which of the waiting ranks reports them.
//
// A waiting rank knows only its neighbours, which may wait themselves. So each rank publishes its
// position once it has kept it for a while, and a rank that has stalled reads the positions of all.
package stall

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gorun/gorun/internal/release"
	"github.com/gorun/gorun/ring/internal/collective"
)

const (
	Samples      = 16 // samples of a position in the time after which a call has stalled
	graceSamples = 2  // further samples, for late ranks to publish their position
)

// Post is where a communicator's calls leave their position for the goroutine that samples it.
// Enter and Leave are for the goroutine that makes calls; the rest is safe for concurrent use.
type Post struct {
	turn     uint64 // calls so far
	word     uint64 // position of the last one
	partners uint64 // partners of the last message
}

// Word is the position of a call, with the call's kind and turn.
type Word uint64

// The fields of a Word: whether the call goes on, 4 bits of its kind, 15 of its turn, and the
// rest its order.
const (
	inCall        = 1
	kindAt        = 1
	turnAt        = 5
	orderAt       = 20
	kindMask Word = 1<<(turnAt-kindAt) - 1
	turnMask Word = 1<<(orderAt-turnAt) - 1
)

// Enter records the start of call. To and From are the partners of a message.
func (p *Post) Enter(call *collective.Call, to, from int) {
	p.turn++
	if call.Kind == collective.Message {
		release.Store(&p.partners, uint64(uint32(to))<<32|uint64(uint32(from)))
	}
	release.Store(&p.word, uint64(wordOf(collective.Order(call), p.turn, call.Kind)|inCall))
}

func wordOf(order, turn uint64, kind collective.Kind) Word {
	return Word(order)<<orderAt | Word(turn)&turnMask<<turnAt | Word(kind)<<kindAt
}

// Leave records the end of the call.
func (p *Post) Leave() { release.Store(&p.word, atomic.LoadUint64(&p.word)&^inCall) }

// LeaveIf records the end of the call at w, if it is still the last one, and reports whether it is.
func (p *Post) LeaveIf(w Word) bool {
	return atomic.CompareAndSwapUint64(&p.word, uint64(w), uint64(w)&^inCall)
}

// Word returns the position of the last call.
func (p *Post) Word() Word { return Word(atomic.LoadUint64(&p.word)) }

// Partners returns the partners of the last message; -1 is none.
func (p *Post) Partners() [2]int {
	both := atomic.LoadUint64(&p.partners)
	return [2]int{int(int32(both >> 32)), int(int32(both))}
}

// Kind returns the kind of the call.
func (w Word) Kind() collective.Kind { return collective.Kind(w >> kindAt & kindMask) }

// Position returns the position to publish.
func (w Word) Position() Position { return Position{Order: uint64(w >> orderAt), In: w&inCall != 0} }

// Position is the published position of a rank.
type Position struct {
	Order   uint64 // order of its call, see [collective.Order]; 0 is unknown
	In      bool   // the call goes on
	Stalled bool   // the call has stalled
}

// Encode returns p for the job's store.
func (p Position) Encode() []byte { return fmt.Appendf(nil, "%d %t %t", p.Order, p.In, p.Stalled) }

// Decode parses a position. Invalid text is an unknown position.
func Decode(text []byte) (p Position) {
	if _, err := fmt.Sscanf(string(text), "%d %t %t", &p.Order, &p.In, &p.Stalled); err != nil {
		return Position{}
	}
	return p
}

// Call returns the number of the call, or of the collective before a message.
func (p Position) Call() uint64 { return (p.Order + 1) / 2 }

// Reached reports whether the rank at p has reached the waiting call at mine. A rank that has left
// a collective has reached it. Messages between two collectives share one order: only a rank inside
// a message has reached one.
func (p Position) Reached(mine Position) bool {
	if p.Order == mine.Order && mine.Order%2 == 0 {
		return p.In
	}
	return p.Order >= mine.Order
}

// Watch counts for how many samples a rank has kept its position.
type Watch struct {
	word      Word
	still     int      // samples with the same word
	quiet     int      // samples with the same position
	published Position // position that other ranks see
	reported  bool
}

// Sample takes the word of a Post. It returns the position to publish, or nil, and whether to
// report a stall now.
func (w *Watch) Sample(word Word) (news *Position, report bool) {
	now := word.Position()
	if now != w.word.Position() {
		w.quiet = 0
	}
	if word != w.word {
		w.word = word
		w.still = 0
		w.reported = false
	}
	w.still++
	w.quiet++
	now.Stalled = now.In && w.still > Samples
	if now != w.published && now.Order > 0 && w.quiet > 1 {
		w.published = now
		news = &now
	}
	return news, now.In && !w.reported && w.still > Samples+graceSamples
}

// Word returns the word of the last sample.
func (w *Watch) Word() Word { return w.word }

// Late reports whether other ranks have had the time to report the stall.
func (w *Watch) Late() bool { return w.still > Samples+2*graceSamples }

// Reported records whether the stall was reported. If not, the next sample asks again.
func (w *Watch) Reported(done bool) { w.reported = done }

// Absent is a rank that has not reached a call, with its last known position.
type Absent struct {
	Rank int
	Last Position
}

// ErrOthersReport delays a report that another rank may make.
var ErrOthersReport = errors.New("a rank that has stalled in an earlier call may report")

// Missing returns the ranks that have not reached the collective in which self has stalled. The
// lowest of the ranks that stalled in the same call reports; the others get none. Ranks may be one
// call ahead of others and wait there for them, so the rank that stalled in the earliest call
// reports, and reported is the last reported call. Late reports regardless: all ranks may have
// reached the earlier call, with one of them stopped inside it. Of returns the position of a rank.
func Missing(self, size int, mine, reported Position, late bool, of func(rank int) (Position, error)) (absent []Absent,
	err error) {
	for rank := range size {
		if rank == self {
			continue
		}
		theirs, err := of(rank)
		switch {
		case err != nil:
			return nil, err
		case theirs.Stalled && theirs.Order == mine.Order && rank < self:
			return nil, nil
		case theirs.Stalled && theirs.Order < mine.Order && theirs.Order == reported.Order:
			return nil, nil
		case theirs.Stalled && theirs.Order < mine.Order && !late:
			return nil, ErrOthersReport
		case !theirs.Reached(mine):
			absent = append(absent, Absent{rank, theirs})
		}
	}
	return absent, nil
}
