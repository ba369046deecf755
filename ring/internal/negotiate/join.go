package negotiate

import "errors"

// Join announces that this rank joins, with the frame that has the last of its requests.
// From that step on it takes part in barriers and allreduces of sum and avg without
// submitting them, and must not submit, until all ranks have joined. Ranks that join in
// the same step do so in rank order.
func (n *Negotiator) Join() { n.joining = true }

// Joining reports whether that frame has not been sent yet.
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

// join records that rank has joined: tensors no longer wait for it.
func (n *Negotiator) join(rank int) error {
	if n.joined[rank] {
		return errors.New("joins again before all ranks have joined")
	}
	n.joined[rank] = true
	n.last = rank
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

// part ends all joins if all ranks have joined, and returns the last one.
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

// without returns how many ranks have joined and not submitted e, and the first few of them: there
// may be many ranks and names.
func (n *Negotiator) without(e *entry) (number int, first []int) {
	if n.joins == 0 {
		return 0, nil
	}
	for rank, joined := range n.joined {
		if !joined || e.has(rank) {
			continue
		}
		if number++; number <= namedRanks && !e.want.joinable() {
			first = append(first, rank)
		}
	}
	return number, first
}

// fault returns why the round cannot run without so many ranks that have joined, or at all, or nil.
func (e *entry) fault(joined int, first []int) error {
	switch {
	case e.odd >= 0:
		return e.mismatch()
	case joined > 0 && !e.want.joinable():
		return &JoinedError{Request: e.want, Joined: joined, First: first}
	}
	return nil
}
