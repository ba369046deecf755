package jobs

import (
	"bytes"
	"io"
	"slices"
	"sync"
)

// tail keeps the last lines that were written to several writers, until its end; then it writes
// them, and whatever follows.
type tail struct {
	most int

	mu    sync.Mutex
	lines []line // the latest one may have no end
	next  int    // index of the oldest line, where the next one goes, if there are most
	ended bool
}

// line is a line that a tail holds until its end.
type line struct {
	to   io.Writer
	text []byte
}

// tailWriter is one of a tail's writers. Text of two writers shares no line.
type tailWriter struct {
	tail *tail
	to   io.Writer
}

// of returns a writer of the tail whose lines go to another writer.
func (t *tail) of(to io.Writer) io.Writer { return &tailWriter{t, to} }

func (w *tailWriter) Write(p []byte) (int, error) {
	t := w.tail
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return w.to.Write(p)
	}
	for text := range bytes.Lines(p) {
		t.keep(w.to, text)
	}
	return len(p), nil
}

// keep adds a line, or a part of one.
func (t *tail) keep(to io.Writer, text []byte) {
	if n := len(t.lines); n > 0 {
		latest := &t.lines[(t.next+n-1)%n]
		if latest.to == to && !bytes.HasSuffix(latest.text, []byte("\n")) {
			latest.text = append(latest.text, text...)
			return
		}
	}
	if len(t.lines) < t.most {
		t.lines = append(t.lines, line{to, bytes.Clone(text)})
		return
	}
	oldest := &t.lines[t.next]
	oldest.to = to
	oldest.text = append(oldest.text[:0], text...)
	t.next = (t.next + 1) % t.most
}

// end writes the last lines. What is written later goes through.
func (t *tail) end() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	for _, l := range slices.Concat(t.lines[t.next:], t.lines[:t.next]) {
		if _, err := l.to.Write(l.text); err != nil {
			return err
		}
	}
	t.lines = nil
	return nil
}
