package ring

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/ring/internal/engine"
)

// A rank that waits in a call knows whom it waits for itself, which in a ring is a rank that may wait
// too. So each rank leaves word in the job's store of the call that it stands in, once it has stood there for a
// little; and one that has waited long reads there who has not come.

const (
	defaultStall = 30 * time.Second
	stallLooks   = 16 // at a rank's calls, in the time after which it is reported as stalled
	graceLooks   = 2  // more, in which ranks that came just then have left word
	maxNamed     = 8  // ranks in a report
)

// WithStallReport makes the Comm, and its parts made by [Split], call report when a call has waited
// for the time after for ranks that have not made it. One of the waiting ranks calls it, once for a
// call, from a goroutine of its own. Text is one line that names the call and the missing ranks. A
// call in which all ranks take part is not reported, however long it takes. After is 30 s if zero,
// and never if negative.
//
// Without this option gorun prints the text. Report must not close the Comm.
func WithStallReport(after time.Duration, report func(text string)) Option {
	if after == 0 {
		after = defaultStall
	}
	return func(o *options) { o.stall, o.report = after, report }
}

// post is where a Comm's calls publish their position for its sentry.
type post struct {
	turn     uint64        // calls so far; of who makes them
	word     atomic.Uint64 // where the last one is
	partners atomic.Uint64 // of the last message
}

// The fields of a post's word: whether the call goes on, 4 bits of its kind, 15 of its turn, the rest its place.
const (
	inCall                               = 1
	postKind, postTurn, postPlace        = 1, 5, 20
	postKindMask, postTurnMask    uint64 = 1<<(postTurn-postKind) - 1, 1<<(postPlace-postTurn) - 1
)

func (p *post) enter(call engine.Call, to, from int) {
	p.turn++
	if call.Kind == engine.KindMessage {
		p.partners.Store(uint64(uint32(to))<<32 | uint64(uint32(from)))
	}
	p.word.Store(call.Order()<<postPlace | p.turn&postTurnMask<<postTurn | uint64(call.Kind)<<postKind | inCall)
}

func (p *post) leave() { p.word.Store(p.word.Load() &^ inCall) }

// standing is the published position of a rank.
type standing struct {
	place   uint64 // as order numbers calls; 0: nothing is known
	in      bool   // the call goes on
	stalled bool   // for so long that it is to be reported
}

func standingOf(word uint64) standing {
	return standing{place: word >> postPlace, in: word&inCall != 0}
}

func (s standing) encode() []byte { return fmt.Appendf(nil, "%d %t %t", s.place, s.in, s.stalled) }

func decodeStanding(text []byte) (s standing) {
	if _, err := fmt.Sscanf(string(text), "%d %t %t", &s.place, &s.in, &s.stalled); err != nil {
		return standing{}
	}
	return s
}

// come reports whether the rank at s has reached the waiting call at mine. A rank that has left a
// collective has reached it. Messages between two collectives share one position: only a rank
// inside a message has reached one.
func (s standing) come(mine standing) bool {
	if s.place == mine.place && mine.place%2 == 0 {
		return s.in
	}
	return s.place >= mine.place
}

// vigil counts for how many samples a rank has kept its position.
type vigil struct {
	word  uint64
	still int      // looks at which the post said the same
	quiet int      // looks at which it had the same standing
	said  standing // to the other ranks
	done  bool     // the stall was reported
}

// look takes the word of a post. It returns the position to publish, or nil, and whether to report
// a stall now.
func (v *vigil) look(word uint64) (news *standing, report bool) {
	now := standingOf(word)
	if now != standingOf(v.word) {
		v.quiet = 0
	}
	if word != v.word {
		v.word, v.still, v.done = word, 0, false
	}
	v.still++
	v.quiet++
	now.stalled = now.in && v.still > stallLooks
	if now != v.said && now.place > 0 && v.quiet > 1 {
		v.said = now
		news = &now
	}
	return news, now.in && !v.done && v.still > stallLooks+graceLooks
}

// postSentry starts the Comm's sentry.
func (c *Comm) postSentry() {
	if c.opts.stall > 0 && c.door != nil && c.Size() > 1 {
		c.work.Go(c.stand)
	}
}

// stand samples the Comm's calls until the Comm ends.
func (c *Comm) stand() {
	pause := max(c.opts.stall/stallLooks, time.Millisecond)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	var v vigil
	for ; ; timer.Reset(pause) { // no ticker: after a late look the next would come too soon
		select {
		case <-c.life.Done():
			return
		case <-timer.C:
		}
		news, report := v.look(c.post.word.Load())
		if news != nil {
			_ = c.door.Put(c.life, c.postKey(c.Rank()), news.encode()) // what others do not hear they take for absence
		}
		if report {
			v.done = c.reportStall(v.word, v.still > stallLooks+2*graceLooks) == nil // else again at the next look
		}
	}
}

// postKey is the key under which a rank publishes its position.
func (c *Comm) postKey(rank int) string { return fmt.Sprintf("%s/%d", c.stallKey(), rank) }

func (c *Comm) stallKey() string { return fmt.Sprintf("ring/%d/stall%s", c.place.Epoch, c.name) }

// reportStall finds the ranks that have not reached the call of word, and reports them unless
// another rank does. It returns an error if that is not decided yet; late forces a decision.
func (c *Comm) reportStall(word uint64, late bool) error {
	find := func(mine standing) ([]missing, error) { return c.absent(mine, late) }
	if kind := Kind(word >> postKind & postKindMask); kind == KindMessage {
		find = c.absentPartners
	}
	absent, err := find(standingOf(word))
	if err != nil || len(absent) == 0 || c.post.word.Load() != word {
		return err
	}
	text := c.stallText(word, absent)
	if c.opts.report != nil {
		c.opts.report(text)
		return nil
	}
	return c.door.Note(c.life, text)
}

// missing is a rank that has not reached a call, with its last known position.
type missing struct {
	rank int
	last standing
}

// absent returns the ranks that have not reached the collective in which this rank has stalled, or
// none if another rank reports it.
func (c *Comm) absent(mine standing, late bool) ([]missing, error) {
	told := c.stallKey() + "/told"
	last, err := c.standing(told)
	if err != nil || last.place == mine.place {
		return nil, err
	}
	absent, err := whoIsMissing(c.Rank(), c.Size(), mine, last, late, func(rank int) (standing, error) { return c.standing(c.postKey(rank)) })
	if err != nil || len(absent) == 0 {
		return nil, err
	}
	return absent, c.door.Put(c.life, told, mine.encode())
}

// errOthersTell delays a report that another rank may make.
var errOthersTell = errors.New("a rank that has stalled in an earlier call may tell")

// whoIsMissing returns the ranks that have not reached the collective in which self has stalled.
// The lowest of the ranks that stalled in the same call reports; the others get none. Ranks may be
// one call ahead of others and wait there for them, so the rank that stalled in the earliest call
// reports, and told is the last reported call. Late reports regardless: all ranks may have reached
// the earlier call, with one of them stopped inside it. of returns the position of a rank.
func whoIsMissing(self, size int, mine, told standing, late bool, of func(rank int) (standing, error)) (absent []missing, err error) {
	for rank := range size {
		if rank == self {
			continue
		}
		theirs, err := of(rank)
		switch {
		case err != nil:
			return nil, err
		case theirs.stalled && theirs.place == mine.place && rank < self:
			return nil, nil
		case theirs.stalled && theirs.place < mine.place && theirs.place == told.place:
			return nil, nil
		case theirs.stalled && theirs.place < mine.place && !late:
			return nil, errOthersTell
		case !theirs.come(mine):
			absent = append(absent, missing{rank, theirs})
		}
	}
	return absent, nil
}

// absentPartners returns the partners of this rank's message that are in none.
func (c *Comm) absentPartners(mine standing) ([]missing, error) {
	partners := c.post.partners.Load()
	var absent []missing
	for _, rank := range []int{int(int32(partners >> 32)), int(int32(partners))} {
		if rank < 0 || rank == c.Rank() || len(absent) > 0 && absent[0].rank == rank {
			continue
		}
		theirs, err := c.standing(c.postKey(rank))
		if err != nil {
			return nil, err
		}
		if !theirs.come(mine) {
			absent = append(absent, missing{rank, theirs})
		}
	}
	return absent, nil
}

// standing returns the position last published under key.
func (c *Comm) standing(key string) (standing, error) {
	ctx, cancel := context.WithTimeout(c.life, c.opts.stall)
	defer cancel()
	text, found, err := c.door.Get(ctx, key)
	if err != nil || !found {
		return standing{}, err
	}
	return decodeStanding(text), nil
}

// stallText formats the line of a report.
func (c *Comm) stallText(word uint64, absent []missing) string {
	kind := Kind(word >> postKind & postKindMask)
	var b strings.Builder
	call := fmt.Sprintf("%v, call %d", kind, number(word>>postPlace))
	if kind == KindMessage {
		call = fmt.Sprintf("a message after call %d", number(word>>postPlace))
	}
	if c.ranks != nil {
		call += fmt.Sprintf(" of a part of %d ranks", c.Size())
	}
	fmt.Fprintf(&b, "%s, has waited %v for rank ", call, c.opts.stall)
	for i, m := range absent[:min(len(absent), maxNamed)] {
		switch {
		case i > 0 && kind == KindMessage:
			b.WriteString(" or ") // which half waits is not known
		case i > 0:
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d on %s", c.inJob(m.rank), c.host(m.rank))
		if m.last.in {
			fmt.Fprintf(&b, " (seen in call %d)", number(m.last.place))
		}
	}
	if more := len(absent) - maxNamed; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

// number returns the number of the call at place, or of the collective before it for a message.
func number(place uint64) uint64 { return (place + 1) / 2 }
