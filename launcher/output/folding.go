package output

import (
	"bytes"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/launcher/output/fold"
)

// fold holds a whole line back for equal ones of other ranks, and puts anything else into the
// buffer after the rank's lines that wait. Lines that do not match are dropped.
func (p *Printer) fold(s *stream, line []byte) {
	if p.Match != nil && !p.Match(bytes.TrimRight(line, "\r\n")) {
		return
	}
	if p.folder == nil || !p.Fold.On[s.fd] {
		p.emit(s, line)
		return
	}
	whole := line[len(line)-1] == '\n' && !s.midline && !s.afterCR
	if whole && p.folder.Add(s.rank, s.fd, line, s.at, time.Now()) {
		return
	}
	p.folder.Release(s.rank)
	p.emit(s, line)
}

// emitFolded puts a line that has waited into the buffer.
func (p *Printer) emitFolded(l fold.Line) {
	if len(l.Ranks) == 1 {
		s := p.streams[wire.OutputStream(l.Ranks[0], l.FD)]
		now := s.at
		s.at = l.At
		p.emit(s, l.Text)
		s.at = now
		return
	}
	if p.open != nil {
		p.breakLine()
	}
	p.out.Write(p.Fold.Prefix(l.Ranks, l.At))
	p.out.Write(l.Text)
	p.last = nil
	p.lines++
	for _, rank := range l.Ranks {
		p.showed(p.streams[wire.OutputStream(rank, l.FD)])
	}
}

// foldDue writes the lines that have waited long enough, and sets the timer for the next one.
func (p *Printer) foldDue() {
	if p.folder == nil {
		return
	}
	if left := p.folder.Due(time.Now()); left > 0 {
		p.due.Reset(left)
	}
}

// endFold writes all lines that wait.
func (p *Printer) endFold() {
	if p.folder != nil {
		p.due.Stop()
		p.folder.Flush()
	}
}
