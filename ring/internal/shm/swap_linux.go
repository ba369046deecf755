package shm

import "unsafe"

// Swap sends the outLen bytes at out to rank to, and fills the inLen bytes at in
// from rank from, at the same time; either rank may be None. A rank's Swaps with
// one partner are in the same order at both ends, and both ends of a message must
// agree on its length, else it is a *LengthError, and on the sign. Neither rank is this
// one. out and in do not overlap.
//
// A Swap returns when all of its message has come, and all of the one it sends has
// been put into this rank's outbox, where it may still lie.
//
// This cannot deadlock where calls that wait for each other's data would not. The two
// halves of a Swap go on independently of each other. The sending half waits only
// until a box is empty, or an earlier message to the same rank has been taken; had
// the Swap that sent that message waited until it was taken, that would be
// over already. So whatever ends if every message is handed over directly ends here too,
// as do all sequences of Swaps that have one order everywhere: of the Swaps that
// are not over take the first, with those it exchanges messages with; nothing before
// them is left to wait for, and each of their halves finds its other half at work.
func (g *Group) Swap(sign uint64, to int, out unsafe.Pointer, outLen int, from int, in unsafe.Pointer,
	inLen int) error {
	s := swap{g: g, sign: sign}
	if to != None {
		s.out = half{
			rank:   to,
			data:   out,
			length: outLen,
			parts:  parts(outLen),
		}
	}
	if from != None {
		s.in = half{
			rank:   from,
			data:   in,
			length: inLen,
			parts:  parts(inLen),
		}
	}
	return s.run()
}

// Prompt waits for some microseconds until a Swap of at most one block can go through without
// waiting for a rank, and reports whether it can: what goes out has room, and what comes in has
// begun to come.
func (g *Group) Prompt(to, outLen, from int) bool {
	if to == g.rank || from == g.rank || to != None && outLen > boxSize {
		return false
	}
	s := swap{g: g}
	if to != None {
		s.out = half{rank: to, length: outLen, parts: 1}
	}
	if from != None {
		s.in = half{rank: from, parts: 1}
	}
	ready := func() bool { return (to == None || s.free()) && (from == None || s.come()) }
	return ready() || g.wait.look(ready)
}

// parts returns the number of blocks of a message. An empty message has one block, which
// tells the receiver that it is empty.
func parts(length int) int { return max(1, ceil(length, boxSize)) }

// half is one direction of a Swap.
type half struct {
	rank        int
	data        unsafe.Pointer
	length      int
	parts, next int // blocks in all, and done
	first       int // box of block 0
}

// over reports whether no part is left to move.
func (h *half) over() bool { return h.next == h.parts }

// part returns the offset of the next block in the message, and its length.
func (h *half) part() (off, length int) {
	off = h.next * boxSize
	return off, min(boxSize, h.length-off)
}

// lentBox is a box that may still hold a block for a rank.
type lentBox struct {
	lent  bool
	rank  int
	until uint32 // count of blocks that the rank has taken once the box is empty
}

// swap is the state of one Swap.
type swap struct {
	g       *Group
	sign    uint64
	out, in half
}

func (s *swap) run() error {
	for !s.out.over() || !s.in.over() {
		moved := false
		if s.free() {
			s.put()
			moved = true
		}
		if s.come() {
			if err := s.take(); err != nil {
				return err
			}
			moved = true
		}
		if moved {
			continue
		}
		if err := s.wait(); err != nil {
			return err
		}
	}
	return nil
}

// ready reports whether either half can go on.
func (s *swap) ready() bool { return s.free() || s.come() }

// free reports whether there is a block to put, and room for it.
func (s *swap) free() bool { return !s.out.over() && s.blocker() == None }

// blocker returns the rank that has to take something before the next block can be
// put, or None.
func (s *swap) blocker() int {
	g := s.g
	if s.out.over() {
		return None
	}
	if to := s.out.rank; s.out.next == 0 && !g.took(to, g.posted[to]) {
		return to // the pair describes a message until all of it is taken
	}
	if s.out.length <= inline {
		return None
	}
	if l := g.lentBoxes[g.boxed%boxes]; l.lent && !g.took(l.rank, l.until) {
		return l.rank
	}
	return None
}

// took reports whether rank q has taken that many of this rank's blocks.
func (g *Group) took(q int, blocks uint32) bool {
	return int32(g.seg.pair(q, g.rank).taken.Load()-blocks) >= 0
}

// returned resets the boxes lent to rank q, which has taken all blocks: their counts would wrap
// around after many tiny messages.
func (g *Group) returned(q int) {
	for i := range g.lentBoxes {
		if g.lentBoxes[i].rank == q {
			g.lentBoxes[i].lent = false
		}
	}
}

// put posts the next block. A tiny message travels in the pair's own line.
func (s *swap) put() {
	g := s.g
	h := &s.out
	p := g.seg.pair(g.rank, h.rank)
	box := int(g.boxed % boxes)
	if h.next == 0 {
		g.returned(h.rank)
		p.brief = briefOf(h.length, box)
		p.sign = s.sign
		p.length = uint64(h.length)
	}
	off, length := h.part()
	if h.length <= inline {
		copyPart(unsafe.Pointer(&p.data), 0, h.data, 0, length)
	} else {
		copyPart(g.seg.outbox[g.rank], box*boxSize, h.data, off, length)
		g.lentBoxes[box] = lentBox{true, h.rank, g.posted[h.rank] + 1}
		g.boxed++
	}
	h.next++
	g.posted[h.rank]++
	p.posted.Store(g.posted[h.rank])
	g.seg.controls[h.rank].bell.ring()
}

// come reports whether there is a block to take.
func (s *swap) come() bool {
	h := &s.in
	return !h.over() && int32(s.g.seg.pair(h.rank, s.g.rank).posted.Load()-s.g.taken[h.rank]) > 0
}

func (s *swap) take() error {
	g := s.g
	h := &s.in
	p := g.seg.pair(h.rank, g.rank)
	if h.next == 0 {
		if err := s.check(p); err != nil {
			return err
		}
		h.first = int(p.brief % boxes)
	}
	off, length := h.part()
	if h.length <= inline {
		copyPart(h.data, 0, unsafe.Pointer(&p.data), 0, length)
	} else {
		box := (h.first + h.next) % boxes
		copyPart(h.data, off, g.seg.outbox[h.rank], box*boxSize, length)
	}
	h.next++
	g.taken[h.rank]++
	g.seg.pair(g.rank, h.rank).taken.Store(g.taken[h.rank])
	g.seg.controls[h.rank].bell.ring()
	return nil
}

// check compares the arrived message with the expected one.
func (s *swap) check(p *pair) error {
	if p.sign != s.sign {
		return &SignError{Rank: s.in.rank, Mine: s.sign, Theirs: p.sign}
	}
	if brief := briefOf(s.in.length, int(p.brief%boxes)); p.brief != brief || s.in.length >= briefMost &&
		p.length != uint64(s.in.length) {
		return &LengthError{Rank: s.in.rank, Mine: s.in.length, Theirs: int(p.length)}
	}
	return nil
}

// briefMost is the least length that a brief does not tell.
const briefMost = 1<<30 - 1

// briefOf packs a message's length, as far as it fits, and the box of its first
// block.
func briefOf(length, box int) uint32 { return uint32(min(length, briefMost))*boxes + uint32(box) }

// wait returns when either half can go on, or with the reason why neither will.
func (s *swap) wait() error {
	g := s.g
	bell := &g.seg.controls[g.rank].bell
	if g.wait.look(s.ready) {
		return nil
	}
	for {
		silent, err := g.wait.listen(bell, s.ready)
		if err != nil || !silent {
			return err
		}
		// Read before the counters, since a rank may end right after its last step.
		blocker := s.blocker()
		if blocker != None {
			err = g.wait.vain(blocker)
		}
		if err == nil && !s.in.over() {
			err = g.wait.vain(s.in.rank)
		}
		switch {
		case s.ready():
			return nil
		case err != nil:
			return err
		}
	}
}
