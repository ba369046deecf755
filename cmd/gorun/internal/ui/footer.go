package ui

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/launcher"
)

// Footer shows the progress of a job's start in the last line of a terminal, with the bytes that go
// to the hosts. It disappears before ranks write. After their end it shows how files
// come back.
type Footer struct {
	amount
	console *UI
	hosts   int
	columns int
	line    *live

	connected, ready atomic.Int64 // hosts
}

// NewFooter shows a footer until Close or the start of the ranks.
func NewFooter(console *UI, hosts int) *Footer {
	f := &Footer{
		amount:  amount{began: time.Now()},
		console: console,
		hosts:   hosts,
		columns: lineColumns(console.W),
	}
	f.show(f.step)
	return f
}

// show shows the progress of what step says.
func (f *Footer) show(step func() string) {
	f.line = newLive(liveWait, liveTick, func() {
		f.console.status(f.text(step(), time.Now(), room(f.columns)))
	})
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
		f.connected.Add(1)
	case launcher.Ready:
		f.ready.Add(1)
	case launcher.Started:
		f.Close()
	case launcher.BringingBack:
		f.begin()
		f.show(func() string { return "bringing files back" })
	}
}

// step returns which step of the start is being done.
func (f *Footer) step() string {
	connected := int(f.connected.Load())
	ready := int(f.ready.Load())
	switch {
	case connected < f.hosts:
		return fmt.Sprintf("connecting %d/%d", connected, f.hosts)
	case ready < f.hosts:
		return fmt.Sprintf("staging %d/%d", ready, f.hosts)
	}
	return "starting"
}
