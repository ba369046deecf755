package negotiate

import "errors"

// Join makes this rank say that it joins, with the frame that takes the last of its
// requests. From that step on it takes part in barriers and allreduces of sum and avg
// without submitting them, and it must submit nothing, until all ranks have joined. Ranks
// that join in one step have done so in their order.
func (n *Negotiator) Join() { n.joining = true }

// Joining reports whether the frame that says so is still to come.
func (n *Negotiator) Joining() bool { return n.joining }

// NotJoined lists the ranks that have not joined.
func (n *Negotiator) NotJoined() []int {
	var ranks []int
	for rank, joined := range n.joined {
		if !joined {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// join notes that rank has joined: tensors do not wait for it any more.
func (n *Negotiator) join(rank int) error {
	if n.joined[rank] {
		return errors.New("joins again before all ranks have joined")
	}
	n.joined[rank], n.last = true, rank
	n.joins++
	for _, e := range n.waiting {
		if e.has(rank) {
			continue
		}
		if e.missing--; e.missing == 0 {
			n.complete = append(n.complete, e)
		}
	}
	return nil
}

// part ends all joins, if all ranks have joined, and says which was the last to.
func (n *Negotiator) part() (last int, all bool) {
	n.mix(uint32(n.joins))
	n.mix(uint32(n.last))
	if n.joins < n.config.Size {
		return 0, false
	}
	clear(n.joined)
	n.joins = 0
	return n.last, true
}

// fault is why the round cannot run without the ranks that have joined, or at all; nil if
// it can.
func (e *entry) fault(joined []int) error {
	switch {
	case e.odd >= 0:
		return e.mismatch()
	case len(joined) > 0 && !e.want.joinable():
		return &JoinedError{Request: e.want, Joined: joined}
	}
	return nil
}
