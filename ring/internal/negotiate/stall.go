package negotiate

import (
	"fmt"
	"strings"
	"time"
)

// namedRanks is how many ranks a stall's line names.
const namedRanks = 8

// Stall is a tensor that some ranks have submitted and others have not, for long.
type Stall struct {
	Request // what the first rank said
	Since   time.Time
	Missing []int // ranks that have to submit it and have not
	Ready   []int // ranks that have submitted it
	Joined  []int // ranks that need not
}

// Stalled lists the tensors that wait for longer than the limit of the Config, the
// longest first. One that was listed is listed again when the limit has gone by once
// more. It changes nothing that steps depend on, so ranks may call it when they like.
func (n *Negotiator) Stalled(now time.Time) []Stall {
	limit := n.config.StallAfter
	if limit <= 0 {
		return nil
	}
	var stalls []Stall
	for _, e := range n.waiting {
		if now.Sub(e.since) < limit {
			break // all later ones are younger
		}
		if !e.told.IsZero() && now.Sub(e.told) < limit {
			continue
		}
		e.told = now
		s := Stall{Request: e.want, Since: e.since}
		s.Ready, s.Missing, s.Joined = n.split(e)
		stalls = append(stalls, s)
	}
	return stalls
}

// Missing lists the ranks that have not submitted the tensor of that name, of which at
// least one other has; else nil.
func (n *Negotiator) Missing(name string) []int {
	if !n.Open(name) {
		return nil
	}
	_, missing, _ := n.split(n.names[name])
	return missing
}

// split is which ranks have submitted e, which still have to, and which have joined instead.
func (n *Negotiator) split(e *entry) (ready, missing, joined []int) {
	for rank := range n.config.Size {
		switch {
		case e.has(rank):
			ready = append(ready, rank)
		case n.joined[rank]:
			joined = append(joined, rank)
		default:
			missing = append(missing, rank)
		}
	}
	return ready, missing, joined
}

// Line is the stall as one line of a report: the tensor, for how long it waits, and
// for whom.
func (s Stall) Line(now time.Time) string {
	joined := ""
	if len(s.Joined) > 0 {
		joined = fmt.Sprintf(", %d joined", len(s.Joined))
	}
	return fmt.Sprintf("tensor %q, %v, has waited %v for %s (%d of %d have submitted it%s); see whether they hang or skip it",
		s.Name, s.Request, now.Sub(s.Since).Round(time.Second), RankList(s.Missing), len(s.Ready), len(s.Ready)+len(s.Missing)+len(s.Joined), joined)
}

// RankList names the first few ranks and counts the others, as in "ranks 1, 2".
func RankList(ranks []int) string {
	var b strings.Builder
	b.WriteString("rank")
	if len(ranks) > 1 {
		b.WriteString("s")
	}
	for i, rank := range ranks[:min(len(ranks), namedRanks)] {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, " %d", rank)
	}
	if more := len(ranks) - namedRanks; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}
