package ring

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/ring/internal/boot"
	"github.com/gorun/gorun/ring/internal/stall"
)

const (
	defaultStall = 25 * time.Second // the report comes up to a fifth later: within 30 s
	maxNamed     = 8                // ranks in a report
)

// WithStallReport makes the Comm, and its parts made by [Split], call report when a call has waited
// for the time after for ranks that have not made it. One of the waiting ranks calls it, once for a
// call, from a goroutine of its own. Text is one line that names the call and the missing ranks. A
// call in which all ranks take part is not reported, however long it takes. After is 25 s if zero,
// and never if negative.
//
// Without this option gorun prints the text. Report must not close the Comm.
func WithStallReport(after time.Duration, report func(text string)) Option {
	if after == 0 {
		after = defaultStall
	}
	return func(o *options) {
		o.stall = after
		o.report = report
	}
}

// startStallSampler starts the sampling of calls for stalls.
func (c *Comm) startStallSampler() {
	if c.opts.stall > 0 && c.agent != nil && c.Size() > 1 {
		c.work.Go(c.sampleCalls)
	}
}

// sampleCalls samples the Comm's calls until the Comm ends.
func (c *Comm) sampleCalls() {
	pause := max(c.opts.stall/stall.Samples, time.Millisecond)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	var watch stall.Watch
	for ; ; timer.Reset(pause) { // no ticker: after a late sample the next would come too soon
		select {
		case <-c.life.Done():
			return
		case <-timer.C:
		}
		news, report := watch.Sample(c.post.Word())
		if news != nil {
			_ = c.agent.Put(c.life, c.positionKey(c.Rank()), news.Encode()) // an unknown position counts as absence
		}
		if report {
			watch.Reported(c.reportStall(watch.Word(), watch.Late()) == nil)
		}
	}
}

// rankKey is the key under which a rank of c says something of itself.
func (c *Comm) rankKey(rank int, what string) string {
	return boot.RankKey(c.self.Epoch, c.inJob(rank), "ring/"+what)
}

// positionKey is the key under which a rank publishes its position.
func (c *Comm) positionKey(rank int) string { return c.rankKey(rank, "stall"+c.name) }

// reportedKey is the key of the last position of which a stall was reported. Any rank puts it: all
// it can do is to keep others from a report.
func (c *Comm) reportedKey() string {
	return fmt.Sprintf("ring/%d/stall%s/reported", c.self.Epoch, c.name)
}

// reportStall finds the ranks that have not reached the call of word, and reports them unless
// another rank does. It returns an error if that is not decided yet; late forces a decision.
func (c *Comm) reportStall(word stall.Word, late bool) error {
	find := func(mine stall.Position) ([]stall.Absent, error) { return c.absent(mine, late) }
	if word.Kind() == KindMessage {
		find = c.absentPartners
	}
	absent, err := find(word.Position())
	if err != nil || len(absent) == 0 || c.post.Word() != word {
		return err
	}
	text := c.stallText(word, absent)
	if c.opts.report != nil {
		c.opts.report(text)
		return nil
	}
	return c.agent.Stall(c.life, text)
}

// absent returns the ranks that have not reached the collective in which this rank has stalled, or
// none if another rank reports it.
func (c *Comm) absent(mine stall.Position, late bool) ([]stall.Absent, error) {
	last, err := c.position(c.reportedKey())
	if err != nil || last.Order == mine.Order {
		return nil, err
	}
	absent, err := stall.Missing(c.Rank(), c.Size(), mine, last, late, func(rank int) (stall.Position, error) {
		return c.position(c.positionKey(rank))
	})
	if err != nil || len(absent) == 0 {
		return nil, err
	}
	return absent, c.agent.Put(c.life, c.reportedKey(), mine.Encode())
}

// absentPartners returns the partners of this rank's message that are in none.
func (c *Comm) absentPartners(mine stall.Position) ([]stall.Absent, error) {
	var absent []stall.Absent
	for _, rank := range c.post.Partners() {
		if rank < 0 || rank == c.Rank() || len(absent) > 0 && absent[0].Rank == rank {
			continue
		}
		theirs, err := c.position(c.positionKey(rank))
		if err != nil {
			return nil, err
		}
		if !theirs.Reached(mine) {
			absent = append(absent, stall.Absent{Rank: rank, Last: theirs})
		}
	}
	return absent, nil
}

// position returns the position last published under key.
func (c *Comm) position(key string) (stall.Position, error) {
	ctx, cancel := context.WithTimeout(c.life, c.opts.stall)
	defer cancel()
	text, found, err := c.agent.Get(ctx, key)
	if err != nil || !found {
		return stall.Position{}, err
	}
	return stall.Decode(text), nil
}

func (c *Comm) stallText(word stall.Word, absent []stall.Absent) string {
	kind := word.Kind()
	number := word.Position().Call()
	var b strings.Builder
	call := fmt.Sprintf("%v, call %d", kind, number)
	if kind == KindMessage {
		call = fmt.Sprintf("a message after call %d", number)
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
		fmt.Fprintf(&b, "%d on %s", c.inJob(m.Rank), c.host(m.Rank))
		if m.Last.In {
			fmt.Fprintf(&b, " (seen in call %d)", m.Last.Call())
		}
	}
	if more := len(absent) - maxNamed; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String() + c.place.text(c.inJob(c.Rank()))
}

// WaitsAt sets where in the program this rank waits for a call of c, such as "train.py:42", for the
// report of a stall; "" is unknown. It is safe for concurrent use.
func (c *Comm) WaitsAt(place string) { c.place.set(place) }

// WaitsAt is [Comm.WaitsAt] for the tensors of the queue.
func (q *Queue) WaitsAt(place string) { q.place.set(place) }

// place is where in the program a rank waits.
type place struct{ at atomic.Pointer[string] }

func (p *place) set(at string) { p.at.Store(&at) }

// text returns the part of a report that says where rank waits, or "".
func (p *place) text(rank int) string {
	at := p.at.Load()
	if at == nil || *at == "" {
		return ""
	}
	return fmt.Sprintf("; rank %d waits at %s", rank, *at)
}
