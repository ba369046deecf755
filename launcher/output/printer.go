package output

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/launcher/output/fold"
)

// eraseLine erases the current line of a terminal.
const eraseLine = "\r\x1b[K"

// Format is how ranks' output is shown. The zero value passes bytes unchanged.
type Format struct {
	// Prefix returns the beginning of each line of a rank's output on fd 1 or 2 that arrived at a
	// time; nil: bytes pass unchanged. The result must stay valid until the next call for that fd.
	Prefix func(rank, fd int, at time.Time) []byte
	Fold   Folding // equal lines that are shown as one; needs a Prefix
	// CutMark and a newline end a line that is cut because another rank writes. LastMark ends the
	// last line of all if its rank has not; "": nothing does.
	CutMark, LastMark string
	// Show reports whether a rank's output on fd 1 or 2 is printed; nil: all is. Files get all
	// output.
	Show func(rank, fd int) bool
	// Tap gets the ranks' output as it came, before anything else does, and nothing when a rank
	// pauses within a line; nil: none. It must not keep data.
	Tap func(rank, fd int, at time.Time, data []byte)
}

// Printing is where and how ranks' bytes are shown.
type Printing struct {
	Format
	W      io.Writer
	Screen bool        // whether W is a terminal that can erase a line
	Files  *Files      // nil: none
	Ranks  int         // how many ranks the job starts with, whose last lines are kept longest
	Failed func(error) // called once when W fails
	// Match reports whether a line, without its end, is shown. A line waits until it is whole. nil:
	// all lines are shown, as they come.
	Match func(line []byte) bool

	results *Results // gets all bytes instead of Files; nil: none
}

// Printer writes the ranks' stdout or stderr, or both if they share a destination, to the
// terminal and to files. Lines of different ranks do not mix, within the bounds of a turn, and
// every line starts with its rank's prefix. Add never blocks: queued bytes are bounded by the
// streams' credit, which is returned when they have been written.
type Printer struct {
	Printing

	mu     sync.Mutex
	queue  []chunk
	spare  [][]byte // buffers for later chunks
	closed bool
	wake   chan struct{}
	done   chan struct{}
	Writer *Writer

	// Owned by run.
	streams map[uint32]*stream // key: number, see wire.OutputStream
	out     bytes.Buffer
	turn    turn
	tails   []*stream // streams with a tail, of ranks that the job has started later, the oldest in front
	last    *stream   // stream printed last
	open    *stream   // the stream whose incomplete line or progress bar is on the terminal; nil means none
	broken  bool
	lines   int // lines that were shown
	folder  *fold.Folder
	due     *time.Timer // pokes the printer when a line has waited for equal ones; nil: nothing is folded
}

// Folding says how equal lines of ranks are shown as one. The zero value folds none.
type Folding struct {
	// Prefix returns the beginning of a line of several ranks, of which the first came at a time.
	// The result must stay valid until the next call.
	Prefix  func(ranks []int, at time.Time) []byte
	On      [3]bool // index: fd; true: lines of this stream are folded
	Ranks   int     // number of ranks that are shown; 0: unknown
	Numbers bool    // also lines that differ in numbers only
}

// stream is one rank's state.
type stream struct {
	rank, fd int
	lines    lineBuffer
	waiting  []chunk   // until another stream's long line ends
	slow     bool      // whether it has let others wait too long for the end of a long line
	at       time.Time // when its last bytes came
	midline  bool      // whether the last byte printed ended no line
	afterCR  bool      // whether the last byte printed was \r
	bar      bool      // whether the incomplete line is a progress bar
	tail     []byte    // the last bytes of stderr
	shown    int       // the printer's lines up to its last one; 0: none
	together int       // its last lines that were shown with few others between them
}

// chunk is a piece of output on its way.
type chunk struct {
	stream  uint32
	data    []byte // empty: the rank pauses
	at      time.Time
	written func(n int)
}

func NewPrinter(how Printing) *Printer {
	p := &Printer{
		Printing: how,
		wake:     make(chan struct{}, 1),
		done:     make(chan struct{}),
		streams:  map[uint32]*stream{},
	}
	p.Writer = newWriter(how.W)
	if how.Fold.Prefix != nil && how.Prefix != nil {
		p.folder = fold.New(how.Fold.Ranks, how.Fold.Numbers, p.emitFolded)
		p.due = time.AfterFunc(fold.Wait, p.poke)
	}
	go p.run()
	return p
}

// Add queues a copy of data, and calls written when it has been written.
func (p *Printer) Add(stream uint32, data []byte, written func(n int)) {
	p.AddAt(time.Now(), stream, data, written)
}

// AddAt is Add for data that came at a time in the past.
func (p *Printer) AddAt(at time.Time, stream uint32, data []byte, written func(n int)) {
	p.mu.Lock()
	var own []byte
	if last := len(p.spare) - 1; last >= 0 {
		own = p.spare[last]
		p.spare = p.spare[:last]
	}
	p.mu.Unlock()
	p.enqueue(chunk{stream, append(own[:0], data...), at, written})
}

// maxSpare is how many chunks' memory is kept for later ones.
const maxSpare = 64

// recycle keeps the memory of a written chunk.
func (p *Printer) recycle(data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.spare) < maxSpare {
		p.spare = append(p.spare, data)
	}
}

// Pause shows the unfinished line of a rank that pauses within it, and calls written(0).
func (p *Printer) Pause(stream uint32, written func(n int)) {
	p.enqueue(chunk{stream: stream, at: time.Now(), written: written})
}

func (p *Printer) enqueue(c chunk) {
	p.mu.Lock()
	p.queue = append(p.queue, c)
	p.mu.Unlock()
	p.poke()
}

func (p *Printer) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Close writes all that is left, and waits for that.
func (p *Printer) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.poke()
	<-p.done
}

func (p *Printer) take() (batch []chunk, closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	batch = p.queue
	p.queue = nil
	return batch, p.closed
}

func (p *Printer) run() {
	defer close(p.done)
	defer p.Writer.close()
	for range p.wake {
		batch, closed := p.take()
		for _, c := range batch {
			p.add(c)
		}
		p.endStalled()
		p.foldDue()
		if closed {
			p.endTurns()
			p.flushAll()
			p.endFold()
			p.endOpenLine()
		}
		p.write()
		if closed {
			return
		}
	}
}

func (p *Printer) stream(number uint32) *stream {
	s := p.streams[number]
	if s == nil {
		s = &stream{}
		s.rank, s.fd = wire.RankFD(number)
		p.streams[number] = s
	}
	return s
}

// print moves one chunk to the buffer and the files.
func (p *Printer) print(s *stream, c chunk) {
	if p.Tap != nil && p.results == nil {
		p.Tap(s.rank, s.fd, c.at, c.data)
	}
	if len(c.data) == 0 {
		if p.Match == nil {
			p.flush(s)
		}
		c.written(0)
		return
	}
	switch {
	case p.results != nil:
		p.results.write(s.rank, c.data)
	case p.Files != nil:
		p.Files.write(s.rank, s.fd, c.data)
	}
	if s.fd == 2 && len(s.tail) == 0 && s.rank >= p.Ranks {
		p.limitTails(s)
	}
	s.keep(c.data)
	if p.Show == nil || p.Show(s.rank, s.fd) {
		s.at = c.at
		s.lines.add(c.data, func(line []byte) { p.fold(s, line) })
	}
	if p.out.Len() >= wire.MaxData {
		p.write()
	}
	c.written(len(c.data))
	p.recycle(c.data)
}

// emit puts one line, or a piece of one, into the buffer.
func (p *Printer) emit(s *stream, line []byte) {
	if p.Prefix != nil && !p.begin(s, line) {
		return
	}
	p.out.Write(line)
	last := line[len(line)-1]
	s.midline = last != '\n' && last != '\r'
	s.afterCR = last == '\r'
	s.bar = s.afterCR || s.bar && s.midline
	p.last = s
	p.open = nil
	if last != '\n' {
		p.open = s
		return
	}
	p.lines++
	p.showed(s)
}

// showed counts the printer's last line as one of a stream.
func (p *Printer) showed(s *stream) {
	const between = 2
	if s.shown == 0 || p.lines-s.shown > between+1 {
		s.together = 0
	}
	s.together++
	s.shown = p.lines
}

// begin writes the prefix of a line, and reports whether the line is shown.
func (p *Printer) begin(s *stream, line []byte) bool {
	alone := len(line) == 1
	switch {
	case alone && line[0] == '\r' && !s.midline: // some progress bars begin with a return at the start of a line
		s.bar = true
		return false
	case alone && line[0] == '\n' && s.afterCR:
		// The \n of a split \r\n belongs to the previous line, which has ended if
		// another rank has written since.
		s.afterCR = false
		return p.last == s
	case p.open != nil && p.open != s:
		p.breakLine()
	case s.afterCR && p.Screen:
		p.out.WriteString(eraseLine)
	}
	if !s.midline {
		p.out.Write(p.Prefix(s.rank, s.fd, s.at))
	}
	return true
}

// breakLine ends another rank's incomplete line. On a terminal it erases a progress
// bar, which will be redrawn.
func (p *Printer) breakLine() {
	switch {
	case p.open.bar && p.Screen:
		p.out.WriteString(eraseLine)
	case p.open.bar:
		p.out.WriteByte('\n')
	default:
		p.out.WriteString(p.CutMark + "\n")
	}
	p.open.midline = false
	p.open = nil
}

// flush shows the beginning of a rank's incomplete line.
func (p *Printer) flush(s *stream) {
	s.lines.flush(func(piece []byte) { p.fold(s, piece) })
}

func (p *Printer) flushAll() {
	for _, id := range slices.Sorted(maps.Keys(p.streams)) {
		p.flush(p.streams[id])
	}
}

// endOpenLine keeps the user's prompt off a line that a rank did not end.
func (p *Printer) endOpenLine() {
	switch {
	case p.open == nil || p.Prefix == nil || p.LastMark == "":
	case p.open.bar:
		p.out.WriteByte('\n')
	default:
		p.out.WriteString(p.LastMark)
	}
}

// openLine reports whether the last line written has no end. It must follow Close.
func (p *Printer) openLine() bool { return p.open != nil && (p.Prefix == nil || p.LastMark == "") }

func (p *Printer) write() {
	if p.out.Len() > 0 && !p.broken {
		switch err := p.Writer.write(p.out.Bytes()); {
		case errors.Is(err, errAbandoned):
			p.broken = true
			p.out = bytes.Buffer{} // the abandoned write still uses the old buffer
		case err != nil:
			p.broken = true
			p.Failed(err)
		}
	}
	p.out.Reset()
}

// maxTails bounds the streams of ranks that the job has started later whose last lines are kept. A
// host may have tens of thousands of them started.
const maxTails = 1 << 13

// limitTails makes room for the tail of a stream that has none.
func (p *Printer) limitTails(s *stream) {
	p.tails = append(p.tails, s)
	if len(p.tails) > maxTails {
		p.tails[0].tail = nil
		p.tails = p.tails[1:]
	}
}

// keep remembers the end of stderr.
func (s *stream) keep(data []byte) {
	if s.fd != 2 {
		return
	}
	data = data[max(0, len(data)-tailSize):]
	if over := len(s.tail) + len(data) - tailSize; over > 0 {
		s.tail = s.tail[:copy(s.tail, s.tail[over:])]
	}
	s.tail = append(s.tail, data...)
}

// visible reports whether the last n lines of a rank's stderr were shown, with few lines between
// and after them. It must follow Close.
func (p *Printer) visible(rank, n int) bool {
	const few = 10
	s := p.streams[wire.OutputStream(rank, 2)]
	return s != nil && s.shown > 0 && s.together >= n && p.lines-s.shown < few
}

// lastLines returns the last lines of a rank's stderr, safe for a terminal. It must follow Close.
func (p *Printer) lastLines(rank int) []string {
	s := p.streams[wire.OutputStream(rank, 2)]
	if s == nil {
		return nil
	}
	text := s.tail
	if len(text) == tailSize { // the first line may have lost its beginning
		if end := bytes.IndexAny(text, "\r\n"); end >= 0 {
			text = text[end+1:]
		}
	}
	return plainLines(string(text))
}
