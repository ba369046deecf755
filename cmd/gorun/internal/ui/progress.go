package ui

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/files/workdir"
)

const (
	liveWait    = 400 * time.Millisecond // time before the first line
	liveTick    = 100 * time.Millisecond
	verboseTick = 10 * time.Second // interval of lines with --verbose where there is no terminal
)

// live shows a text that changes in the last line of a terminal.
type live struct {
	once    sync.Once
	done    chan struct{}
	removed chan struct{}
}

// newLive calls show with each tick after wait, until stop.
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
	amount
	console *UI
	columns int
	line    *live // nil: nothing is shown
}

// NewProgress shows the progress of what is being done, such as "copying", until Close.
func NewProgress(console *UI, what string) *Progress {
	p := &Progress{
		amount:  amount{began: time.Now()},
		console: console,
		columns: lineColumns(console.W),
	}
	switch {
	case console.Quiet:
	case p.columns > 0:
		p.line = newLive(liveWait, liveTick, func() { console.status(p.text(what, time.Now(), room(p.columns))) })
	case console.Verbose > 0:
		p.line = newLive(verboseTick, verboseTick, func() { console.Notef("%s", p.text(what, time.Now(), anyRoom)) })
	}
	return p
}

// Close removes the line.
func (p *Progress) Close() {
	if p.line != nil {
		p.line.stop()
		p.console.status("")
	}
}

// amount counts bytes that are moved. It is safe for concurrent use.
type amount struct {
	mu           sync.Mutex
	began        time.Time
	total, moved int64
}

// begin forgets what was counted.
func (a *amount) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.began = time.Now()
	a.total = 0
	a.moved = 0
}

// Expect adds bytes to those that are to come; fewer than 0 are not to come after all.
func (a *amount) Expect(bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.total += bytes
}

// Add adds bytes that have come.
func (a *amount) Add(bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.moved += bytes
}

// text returns what is done, and as much of its progress as fits.
func (a *amount) text(what string, now time.Time, width int) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.total <= 0 || a.moved >= a.total {
		return what
	}
	parts := []string{fmt.Sprintf("%s: %s of %s", what, workdir.SizeText(a.moved), workdir.SizeText(a.total)),
		fmt.Sprintf("%d %%", int64(100*float64(a.moved)/float64(a.total)))}
	if took := now.Sub(a.began); a.moved > 0 && took > 0 {
		rate := float64(a.moved) / took.Seconds()
		left := time.Duration(float64(a.total-a.moved) / rate * float64(time.Second))
		parts = append(parts, workdir.SizeText(int64(rate))+"/s", left.Round(time.Second).String()+" left")
	}
	for len(parts) > 1 && len(strings.Join(parts, ", ")) > width {
		parts = parts[:len(parts)-1]
	}
	return strings.Join(parts, ", ")
}

// anyRoom is the width of a line that is never too long.
const anyRoom = 200

// room returns how much of a line of a terminal is left for gorun's text; 0 columns: it is none.
func room(columns int) int {
	if columns == 0 {
		return anyRoom
	}
	return columns - len("gorun: ") - 1
}

// lineColumns returns the width of a terminal that can erase its last line; 0 for others.
func lineColumns(w io.Writer) int {
	if d, is := w.(*DeadlineWriter); is {
		w = d.W
	}
	if !IsTerminal(w) || os.Getenv("TERM") == "dumb" {
		return 0
	}
	if columns := Columns(w.(*os.File)); columns > 0 {
		return columns
	}
	return 80 // the terminal does not say
}
