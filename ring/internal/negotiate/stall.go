package negotiate

import (
	"fmt"
	"strings"
	"time"
)

// namedRanks is the number of ranks that a stall's line, or an error, names.
const namedRanks = 8

// maxStalls is the number of tensors that are listed at a time.
const maxStalls = 64

// Stall is a tensor that some ranks submitted longer ago than the limit, and others have not.
type Stall struct {
	Request // request of the first rank
	Since   time.Time
	Missing []int // ranks that have to submit it and have not
	Ready   []int // ranks that have submitted it
	Joined  []int // ranks that need not submit it
}

// Stalled lists the tensors that wait for longer than the limit of the Config, the longest
// first, and counts those beyond 64. A tensor is listed or counted again after the limit has
// passed once more. It changes no state that steps depend on, so ranks may call it at any time.
func (n *Negotiator) Stalled(now time.Time) (stalls []Stall, more int) {
	limit := n.config.StallAfter
	if limit <= 0 {
		return nil, 0
	}
	for _, e := range n.waiting {
		if now.Sub(e.since) < limit {
			break // all later ones are younger
		}
		if !e.reported.IsZero() && now.Sub(e.reported) < limit {
			continue
		}
		e.reported = now
		if len(stalls) == maxStalls {
			more++
			continue
		}
		s := Stall{Request: e.want, Since: e.since}
		s.Ready, s.Missing, s.Joined = n.split(e)
		stalls = append(stalls, s)
	}
	return stalls, more
}

// Missing lists the ranks that have not submitted the tensor of that name, or nil if no
// rank has.
func (n *Negotiator) Missing(name string) []int {
	if !n.Open(name) {
		return nil
	}
	_, missing, _ := n.split(n.names[name])
	return missing
}

// split returns the ranks that have submitted e, that still have to, and that have joined
// instead.
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

// Line returns the stall as one line of a report: the tensor, how long it has waited, and
// the missing ranks.
func (s Stall) Line(now time.Time) string {
	joined := ""
	if len(s.Joined) > 0 {
		joined = fmt.Sprintf(", %d joined", len(s.Joined))
	}
	return fmt.Sprintf("tensor %q, %v, has waited %v for %s (%d of %d have submitted it%s); see whether they hang or "+
		"skip it",
		s.Name, s.Request, now.Sub(s.Since).Round(time.Second), RankList(s.Missing), len(s.Ready),
		len(s.Ready)+len(s.Missing)+len(s.Joined), joined)
}

// RankList names the first few ranks and counts the others, as in "ranks 1, 2".
func RankList(ranks []int) string { return RankListOf(len(ranks), ranks) }

// RankListOf is RankList of so many ranks, of which at least the first few are given.
func RankListOf(number int, ranks []int) string {
	var b strings.Builder
	b.WriteString("rank")
	if number > 1 {
		b.WriteString("s")
	}
	for i, rank := range ranks[:min(len(ranks), namedRanks)] {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, " %d", rank)
	}
	if more := number - namedRanks; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}
