package ui

import "time"

// repeatTime is the least time between two requests of a person. A repeat that comes sooner is a
// copy of the same request: timeout signals its child and then its process group, systemd sends
// SIGHUP after SIGTERM, and a parent passes on the SIGINT that the terminal sent to both.
const repeatTime = 300 * time.Millisecond

// Presses counts a person's requests to stop a job. The zero value is ready for use.
type Presses struct {
	count int
	last  time.Time
}

// At returns the number of the request that a signal at this time makes, from 1 on, or 0 if it is a
// copy of the last one.
func (p *Presses) At(now time.Time) int {
	if p.count > 0 && now.Sub(p.last) < repeatTime {
		return 0
	}
	p.count++
	p.last = now
	return p.count
}
