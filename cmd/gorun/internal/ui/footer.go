package ui

import (
	"fmt"
	"sync"

	"github.com/gorun/gorun/launcher"
)

// Footer shows the progress of a job's start in the last line of a terminal. It disappears before
// ranks write.
type Footer struct {
	console *UI
	hosts   int
	line    *live

	mu               sync.Mutex
	connected, ready int
}

// NewFooter shows a footer until Close or the start of the ranks.
func NewFooter(console *UI, hosts int) *Footer {
	f := &Footer{console: console, hosts: hosts}
	f.line = newLive(liveWait, liveTick, func() { console.status(f.text()) })
	return f
}

// End removes the footer.
func (f *Footer) End(Outcome) { f.Close() }

// Close removes the footer. Further calls do nothing.
func (f *Footer) Close() {
	f.line.stop()
	f.console.status("")
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
