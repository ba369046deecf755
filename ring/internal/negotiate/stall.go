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
	Missing []int // ranks that have not submitted it
	Ready   []int // ranks that have
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
		s.Ready, s.Missing = e.split(n.config.Size)
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
	_, missing := n.names[name].split(n.config.Size)
	return missing
}

// split is which ranks have submitted e, and which have not.
func (e *entry) split(size int) (ready, missing []int) {
	for rank := range size {
		if e.has(rank) {
			ready = append(ready, rank)
		} else {
			missing = append(missing, rank)
		}
	}
	return ready, missing
}

// Line is the stall as one line of a report: the tensor, for how long it waits, and
// for whom.
func (s Stall) Line(now time.Time) string {
	return fmt.Sprintf("tensor %q, %v, has waited %v for %s (%d of %d have submitted it); see whether they hang or skip it",
		s.Name, s.Request, now.Sub(s.Since).Round(time.Second), RankList(s.Missing), len(s.Ready), len(s.Ready)+len(s.Missing))
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
