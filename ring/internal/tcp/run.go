package tcp

import (
	"context"
	"errors"

	"github.com/gorun/gorun/ring/internal/flow"
)

// stripeMin is the smallest part in bytes that is cut into stripes. It applies to a part,
// not to a flow, so that relayed bytes leave on the stripe on which they arrived.
const stripeMin = 128 << 10

// Run carries out one flow. When it returns nil, everything is received and the flow's
// memory is no longer read. Run makes missing links: it dials a higher rank for at most
// half a minute, and waits for a lower one.
//
// The error is a [*PeerError], a [*SignError] or ErrInterrupted, after which the Net is
// unusable. In steady state Run does not allocate.
//
// On the wire, the sign goes first, on stripe 0, then the parts. [flow.Cut] cuts parts of
// at least stripeMin bytes over all stripes; the others go on stripe 0. No byte of a part
// is stored before the sign is checked.
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

// verdict returns the error of a failed flow: stripe 0's if that is about a sign, else the
// first of any stripe.
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

// ends returns the links of a flow, and makes missing ones. Nil is none.
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

// linked reports whether rank has a link or needs none.
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

// workers returns the streams that carry a flow's stripes besides the caller's. The first
// call starts their goroutines.
func (n *Net) workers(f *flow.Flow) []*stream {
	if len(n.streams) == 1 || !cuts(f) {
		return nil
	}
	workers := n.streams[1:]
	for _, s := range workers {
		if s.start == nil {
			s.start = make(chan struct{}, 1)
			s.gate = make(chan bool, 1)
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

func (n *Net) stopWorkers() {
	for _, s := range n.streams {
		if s.start != nil {
			close(s.start)
			s.start = nil
		}
	}
	n.working.Wait()
}

// serve carries a worker's stripe of each flow.
func (s *stream) serve() {
	for range s.start {
		_ = s.run(nil)
		s.net.busy.Done()
	}
}
