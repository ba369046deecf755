package ui

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/gorun/gorun/internal/files/workdir"
)

const (
	liveWait    = 400 * time.Millisecond // what is over sooner shows no line
	liveTick    = 100 * time.Millisecond
	verboseTick = 10 * time.Second // interval of lines with --verbose where there is no terminal
)

// live shows a text that changes in the last line of a terminal.
type live struct {
	once    sync.Once
	done    chan struct{}
	removed chan struct{}
}

// newLive calls show with each tick after wait, until Close.
func newLive(wait, tick time.Duration, show func()) *live {
	l := &live{done: make(chan struct{}), removed: make(chan struct{})}
	began := time.Now()
	go func() {
		defer close(l.removed)
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for {
			select {
			case <-l.done:
				return
			case <-ticker.C:
				if time.Since(began) >= wait {
					show()
				}
			}
		}
	}()
	return l
}

// stop ends the ticks and waits for the last one. Further calls do nothing.
func (l *live) stop() {
	l.once.Do(func() { close(l.done) })
	<-l.removed
}

// Progress shows how many bytes have come, of how many, how fast, and how long the rest takes. On a
// terminal it is the last line, elsewhere with --verbose a line each 10 s. It is safe for
// concurrent use.
type Progress struct {
	console      *UI
	what         string
	columns      int
	began        time.Time
	total, moved atomic.Int64
	line         *live // nil: nothing is shown
}

// NewProgress shows the progress of what is being done, such as "copying", until Close.
func NewProgress(console *UI, what string) *Progress {
	p := &Progress{
		console: console,
		what:    what,
		columns: lineColumns(console.W),
		began:   time.Now(),
	}
	switch {
	case console.Quiet:
	case p.columns > 0:
		p.line = newLive(liveWait, liveTick, func() { console.status(p.text(time.Now(), p.columns-len("gorun: ")-1)) })
	case console.Verbose > 0:
		p.line = newLive(verboseTick, verboseTick, func() { console.Notef("%s", p.text(time.Now(), 200)) })
	}
	return p
}

// Expect adds bytes to those that are to come; fewer than 0 are not to come after all.
func (p *Progress) Expect(bytes int64) { p.total.Add(bytes) }

// Add adds bytes that have come.
func (p *Progress) Add(bytes int64) { p.moved.Add(bytes) }

// Close removes the line.
func (p *Progress) Close() {
	if p.line != nil {
		p.line.stop()
		p.console.status("")
	}
}

// text returns as much of the progress as fits.
func (p *Progress) text(now time.Time, width int) string {
	moved := p.moved.Load()
	total := p.total.Load()
	if total <= 0 || moved > total {
		return p.what
	}
	parts := []string{fmt.Sprintf("%s %s of %s", p.what, workdir.SizeText(moved), workdir.SizeText(total)),
		fmt.Sprintf("%d %%", int64(100*float64(moved)/float64(total)))}
	if took := now.Sub(p.began); moved > 0 && took > 0 {
		rate := float64(moved) / took.Seconds()
		left := time.Duration(float64(total-moved) / rate * float64(time.Second))
		parts = append(parts, workdir.SizeText(int64(rate))+"/s", left.Round(time.Second).String()+" left")
	}
	for len(parts) > 1 && len(strings.Join(parts, ", ")) > width {
		parts = parts[:len(parts)-1]
	}
	return strings.Join(parts, ", ")
}

// lineColumns returns the width of a terminal that can erase its last line; 0 for others.
func lineColumns(w io.Writer) int {
	if d, is := w.(*DeadlineWriter); is {
		w = d.W
	}
	file, is := w.(*os.File)
	if !is || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return 0
	}
	if columns := Columns(file); columns > 0 {
		return columns
	}
	return 80 // the terminal does not say
}
