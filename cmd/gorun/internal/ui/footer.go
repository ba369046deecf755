package ui

import (
	"fmt"
	"sync"
	"time"

	"github.com/gorun/gorun/launcher"
)

const (
	footerWait = 400 * time.Millisecond // faster starts show no footer
	footerTick = 100 * time.Millisecond
)

// Footer shows the progress of a job's start in the last line of a terminal. It disappears before
// ranks write.
type Footer struct {
	console *UI
	hosts   int
	began   time.Time

	mu               sync.Mutex
	connected, ready int

	once    sync.Once
	done    chan struct{}
	removed chan struct{}
}

// NewFooter shows a footer until Close or the start of the ranks.
func NewFooter(console *UI, hosts int) *Footer {
	f := &Footer{
		console: console,
		hosts:   hosts,
		began:   time.Now(),
		done:    make(chan struct{}),
		removed: make(chan struct{}),
	}
	go f.run()
	return f
}

// End removes the footer.
func (f *Footer) End(Outcome) { f.Close() }

// Close removes the footer. Further calls do nothing.
func (f *Footer) Close() {
	f.once.Do(func() { close(f.done) })
	<-f.removed
}

func (f *Footer) run() {
	defer close(f.removed)
	defer f.console.status("")
	tick := time.NewTicker(footerTick)
	defer tick.Stop()
	for {
		select {
		case <-f.done:
			return
		case <-tick.C:
			if time.Since(f.began) >= footerWait {
				f.console.status(f.text())
			}
		}
	}
}

// Event updates the footer with a step that the launcher reports.
func (f *Footer) Event(event launcher.Event) {
	switch event.(type) {
	case launcher.Connected:
		f.mu.Lock()
		f.connected++
		f.mu.Unlock()
	case launcher.Ready:
		f.mu.Lock()
		f.ready++
		f.mu.Unlock()
	case launcher.Started:
		f.Close()
	}
}

// text returns the current text of the footer.
func (f *Footer) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.connected < f.hosts:
		return fmt.Sprintf("connecting %d/%d", f.connected, f.hosts)
	case f.ready < f.hosts:
		return fmt.Sprintf("staging %d/%d", f.ready, f.hosts)
	}
	return "starting"
}
