package tcp

import (
	"context"
	"errors"

	"github.com/gorun/gorun/ring/internal/flow"
)

// stripeMin is the length from which a part is cut into stripes, in bytes. It is
// one part that counts, not a whole flow: so what is passed on goes out on the
// stripe that it came in on.
const stripeMin = 128 << 10

// Run carries out one flow. When it returns without error, all of it is received and
// nothing is sent from the flow's memory any more. Links that are not there yet are
// made: a higher rank is dialed, for half a minute at most, and a lower one is waited
// for.
//
// The error is a [*PeerError], a [*SignError] or ErrInterrupted, and the Net is of no
// use after it. In steady state Run does not allocate.
//
// On the wire, the sign goes first, on stripe 0, then the parts. Each of at least
// stripeMin bytes is cut over all stripes as [flow.Cut] says, the others go on stripe
// 0. No byte of a part is taken before the sign is checked.
func (n *Net) Run(f *flow.Flow) error {
	if err := n.usable(); err != nil {
		return err
	}
	to, from, err := n.ends(f)
	if err != nil {
		return err
	}
	n.flows++
	workers := n.workers(f)
	for _, s := range n.streams[:1+len(workers)] {
		s.begin(f, to, from)
	}
	n.busy.Add(len(workers))
	for _, s := range workers {
		s.start <- struct{}{}
	}
	err = n.streams[0].run(workers)
	n.busy.Wait()
	if n.halted.Load() {
		err = n.verdict(err)
	}
	return err
}

// verdict chooses why a flow has failed: the first failure of any stripe, unless
// stripe 0 knows better.
func (n *Net) verdict(err error) error {
	var sign *SignError
	n.mu.Lock()
	defer n.mu.Unlock()
	if errors.As(err, &sign) && !errors.Is(n.err, ErrInterrupted) {
		n.err = err
	}
	if sign != nil {
		return sign
	}
	return n.err
}

// ends returns the links of a flow, which it makes if need be. Nil is none.
func (n *Net) ends(f *flow.Flow) (to, from *link, err error) {
	if !n.linked(f.To) || !n.linked(f.From) {
		if err := n.makeLinks(f); err != nil {
			return nil, nil, err
		}
	}
	if f.To != flow.None {
		to = n.links[f.To]
	}
	if f.From != flow.None {
		from = n.links[f.From]
	}
	return to, from, nil
}

// linked reports that there is a link to rank, or none is needed.
func (n *Net) linked(rank int) bool {
	return rank == flow.None || rank >= 0 && rank < len(n.links) && n.links[rank] != nil
}

func (n *Net) makeLinks(f *flow.Flow) error {
	var ranks []int
	for _, rank := range []int{f.To, f.From} {
		if rank != flow.None {
			ranks = append(ranks, rank)
		}
	}
	dialing, cancel := context.WithTimeout(n.life, linkTimeout)
	defer cancel()
	return n.connect(dialing, n.life, ranks)
}

// workers returns the streams that carry stripes of a flow next to the caller's. It
// starts their goroutines the first time.
func (n *Net) workers(f *flow.Flow) []*stream {
	if len(n.streams) == 1 || !cuts(f) {
		return nil
	}
	workers := n.streams[1:]
	for _, s := range workers {
		if s.start == nil {
			s.start, s.gate = make(chan struct{}, 1), make(chan bool, 1)
			n.working.Go(s.serve)
		}
	}
	return workers
}

// cuts reports whether any part of f is cut into stripes.
func cuts(f *flow.Flow) bool {
	for _, b := range f.Send {
		if len(b) >= stripeMin {
			return true
		}
	}
	for i := range f.Recv {
		if len(f.Recv[i].Into) >= stripeMin {
			return true
		}
	}
	return false
}

// dismiss ends the workers.
func (n *Net) dismiss() {
	for _, s := range n.streams {
		if s.start != nil {
			close(s.start)
			s.start = nil
		}
	}
	n.working.Wait()
}

// serve is a worker's life: one round is its stripe of one flow.
func (s *stream) serve() {
	for range s.start {
		_ = s.run(nil)
		s.net.busy.Done()
	}
}
