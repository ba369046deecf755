package stacks

import (
	"time"

	"github.com/gorun/gorun/internal/sight/recorder"
)

// Pulse shows whether a rank makes progress.
type Pulse struct {
	Rank  int           `json:"rank"`
	CPU   time.Duration `json:"cpu"`   // CPU time of the rank's processes
	Calls uint64        `json:"calls"` // calls of ring, begun and ended
	Waits bool          `json:"waits"` // whether the rank is in a call or has a pending tensor
}

// Add adds the record of one of the rank's processes.
func (p *Pulse) Add(s *recorder.Snapshot) {
	p.Calls += s.Calls
	p.Waits = p.Waits || !s.Joined || s.Pending > 0
	for i := range s.Comms {
		p.Calls += s.Comms[i].Count
		p.Waits = p.Waits || s.Comms[i].Current() != nil
	}
}

// Watch detects a hang: for the time Limit no rank has printed, none has begun or ended a call of
// ring, and either a rank waits in such a call or no rank has used a processor. Ranks that compute
// while others wait for them count as hanging, because spinning looks the same.
type Watch struct {
	Limit time.Duration

	last     map[int]Pulse
	at       time.Time // time of last
	quiet    time.Time // start of the time without progress
	reported bool      // whether this hang was reported
}

// idle is the part of a processor's time below which a rank counts as idle: runtimes wake up now
// and then.
const idle = 0.02

// Sample adds the pulses of all ranks and the time of the last output. It reports a hang once.
func (w *Watch) Sample(now time.Time, pulses []Pulse, printed time.Time) (hangs bool) {
	progress := len(pulses) != len(w.last)
	busy := false
	waits := false
	last := map[int]Pulse{}
	for _, p := range pulses {
		before, known := w.last[p.Rank]
		progress = progress || !known || p.Calls != before.Calls
		busy = busy || float64(p.CPU-before.CPU) > idle*float64(now.Sub(w.at))
		waits = waits || p.Waits
		last[p.Rank] = p
	}
	w.last = last
	w.at = now
	if progress || printed.After(w.quiet) || busy && !waits || len(pulses) == 0 {
		w.quiet = now
		w.reported = false
		return false
	}
	hangs = !w.reported && now.Sub(w.quiet) >= w.Limit
	w.reported = w.reported || hangs
	return hangs
}
