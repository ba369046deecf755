package output

import (
	"slices"
	"time"
)

// Bounds of a turn: a stream that exceeds one loses its turn, and its line is split.
const (
	maxWhole  = 16 << 20    // bytes of the line
	maxPauses = 8           // reports that the rank pauses
	stallTime = time.Second // time without bytes
	turnTime  = 5 * time.Second
)

// turn lets one stream write a line above maxLine while the other streams wait, so that the line
// stays whole. No line is held in memory for it: chunks that wait return no credit, which stops
// their ranks.
type turn struct {
	holder  *stream   // nil: nobody's
	waiting []*stream // those with chunks that wait, in the order of their first ones
	pauses  int
	began   time.Time
	last    time.Time   // time of the holder's last bytes
	stall   *time.Timer // pokes the printer when the holder may have had the turn for too long
}

// add prints a chunk, or makes it wait.
func (p *Printer) add(c chunk) {
	s := p.stream(c.stream)
	if p.turn.holder == nil || p.turn.holder == s {
		p.print(s, c)
		p.passTurn(s, len(c.data) == 0)
		p.resume()
		return
	}
	if len(s.waiting) == 0 {
		p.turn.waiting = append(p.turn.waiting, s)
	}
	s.waiting = append(s.waiting, c)
}

// passTurn gives a stream the turn, or takes it away, after a chunk of the stream was printed.
func (p *Printer) passTurn(s *stream, paused bool) {
	t := &p.turn
	long := s.lines.long > 0 && s.lines.long < maxWhole && !s.slow
	switch {
	case !long && t.holder == s:
		p.endTurn()
	case !long:
	case t.holder == nil:
		t.holder = s
		t.pauses = 0
		t.began = time.Now()
		t.last = t.began
		t.stall = time.AfterFunc(stallTime, p.poke)
	case paused && t.pauses == maxPauses:
		p.takeTurn()
	case paused:
		t.pauses++
	default:
		t.last = time.Now()
		t.stall.Reset(min(stallTime, turnTime-t.last.Sub(t.began)))
	}
}

// takeTurn takes the turn from a holder that lets the others wait. It gets none again: its rank may
// print a byte at a time, and the others' ranks would block.
func (p *Printer) takeTurn() {
	p.turn.holder.slow = true
	p.endTurn()
}

// endTurn takes the turn from its holder, which gets none again in the same line.
func (p *Printer) endTurn() {
	t := &p.turn
	if t.holder != nil {
		t.stall.Stop()
		t.holder.lines.split()
		t.holder = nil
	}
}

// endStalled ends a turn whose holder is silent, or takes too long.
func (p *Printer) endStalled() {
	t := &p.turn
	if t.holder != nil && (time.Since(t.last) >= stallTime || time.Since(t.began) >= turnTime) {
		p.takeTurn()
		p.resume()
	}
}

// resume prints chunks that wait until one of their streams takes the turn.
func (p *Printer) resume() {
	for p.turn.holder == nil && len(p.turn.waiting) > 0 {
		s := p.turn.waiting[0]
		p.turn.waiting = slices.Delete(p.turn.waiting, 0, 1)
		chunks := s.waiting
		s.waiting = nil
		for _, c := range chunks {
			p.print(s, c)
			p.passTurn(s, len(c.data) == 0)
		}
	}
}

// endTurns prints all chunks that wait.
func (p *Printer) endTurns() {
	for p.turn.holder != nil {
		p.endTurn()
		p.resume()
	}
}
