package launcher

import (
	"bytes"
	"io"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/wire"
)

// idleTime is how long an unfinished line waits for its end before it is shown.
const idleTime = 100 * time.Millisecond

// printer writes the ranks' bytes of one kind, stdout or stderr, to the
// terminal and to files. Lines of different ranks never mix, and every line
// starts with its rank's prefix. add never blocks: how much can wait here is
// bounded by the streams' credit, which is returned when bytes have been written.
type printer struct {
	w      io.Writer
	fd     int
	prefix func(rank int) []byte // nil: none, bytes pass as they are
	files  *rankFiles            // nil: none
	failed func(error)           // the terminal does not take any more; called once

	mu     sync.Mutex
	queue  []chunk
	closed bool
	wake   chan struct{}
	done   chan struct{}

	// Owned by run.
	streams map[int]*stream
	out     bytes.Buffer
	held    bool // an unfinished line may be waiting
	last    int  // the rank that was printed last
	open    int  // the rank whose unfinished line stands on the terminal; -1: none
	broken  bool
}

// stream is one rank's state.
type stream struct {
	lines   lineBuffer
	midline bool // the last byte printed was no line end
	afterCR bool // it was \r
}

// chunk is a piece of output on its way.
type chunk struct {
	rank    int
	data    []byte
	written func(n int)
}

func newPrinter(w io.Writer, fd int, prefix func(int) []byte, files *rankFiles, failed func(error)) *printer {
	p := &printer{w: w, fd: fd, prefix: prefix, files: files, failed: failed,
		wake: make(chan struct{}, 1), done: make(chan struct{}), streams: map[int]*stream{}, open: -1}
	go p.run()
	return p
}

// add queues a copy of data; written is called when it has been dealt with.
func (p *printer) add(rank int, data []byte, written func(n int)) {
	c := chunk{rank, bytes.Clone(data), written}
	p.mu.Lock()
	p.queue = append(p.queue, c)
	p.mu.Unlock()
	p.poke()
}

func (p *printer) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// close writes all that is left, and waits for that.
func (p *printer) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.poke()
	<-p.done
}

func (p *printer) take() (batch []chunk, closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	batch, p.queue = p.queue, nil
	return batch, p.closed
}

func (p *printer) run() {
	defer close(p.done)
	var idle <-chan time.Time // while an unfinished line waits
	for {
		select {
		case <-p.wake:
		case <-idle:
			idle = nil
			p.flushAll()
		}
		batch, closed := p.take()
		for _, c := range batch {
			p.print(c)
		}
		if closed {
			p.flushAll()
			p.endOpenLine()
			p.write()
			return
		}
		p.write()
		if p.held && idle == nil {
			idle = time.After(idleTime)
		}
	}
}

// print moves one chunk to the buffer and the files.
func (p *printer) print(c chunk) {
	if p.files != nil {
		p.files.write(c.rank, p.fd, c.data)
	}
	s := p.streams[c.rank]
	if s == nil {
		s = &stream{}
		p.streams[c.rank] = s
	}
	s.lines.add(c.data, func(line []byte) { p.emit(c.rank, s, line) })
	p.held = p.held || len(s.lines.partial) > 0
	if p.out.Len() >= wire.MaxData {
		p.write()
	}
	c.written(len(c.data))
}

// emit puts one line, or a piece of one, into the buffer.
func (p *printer) emit(rank int, s *stream, line []byte) {
	if p.prefix != nil {
		if p.open >= 0 && p.open != rank {
			p.out.WriteByte('\n') // another rank's unfinished line stands there
			p.streams[p.open].midline = false
		}
		// The \n of a \r\n that came in two pieces belongs to the line above.
		if crlf := s.afterCR && p.last == rank && len(line) == 1 && line[0] == '\n'; !s.midline && !crlf {
			p.out.Write(p.prefix(rank))
		}
	}
	p.out.Write(line)
	last := line[len(line)-1]
	s.midline = last != '\n' && last != '\r'
	s.afterCR = last == '\r'
	p.last, p.open = rank, -1
	if s.midline {
		p.open = rank
	}
}

func (p *printer) flushAll() {
	p.held = false
	for rank, s := range p.streams {
		s.lines.flush(func(piece []byte) { p.emit(rank, s, piece) })
	}
	p.write()
}

// endOpenLine keeps the user's prompt off a line that a rank did not end.
func (p *printer) endOpenLine() {
	if p.open >= 0 && p.prefix != nil {
		p.out.WriteByte('\n')
	}
}

// write empties the buffer onto the terminal.
func (p *printer) write() {
	if p.out.Len() > 0 && !p.broken {
		if _, err := p.w.Write(p.out.Bytes()); err != nil {
			p.broken = true
			p.failed(err)
		}
	}
	p.out.Reset()
}
