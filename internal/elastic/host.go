package elastic

import (
	"slices"
	"time"
)

// changeTime is how long it is held against a host that it came or went.
const changeTime = time.Hour

// host is what is known of one host.
type host struct {
	name  string
	place int // in the order of arrival
	slots int // by the list; 0: it is not on it
	procs map[int]*process

	lost      bool // and not fenced
	lostAt    time.Duration
	left      bool // the job, or is about to, not by a failure of its ranks
	asides    int  // how often it was set aside, until it was well for long
	asideAt   time.Duration
	asideTill time.Duration
	restTill  time.Duration   // no process is started there until then; those that work stay
	failures  []time.Duration // of its processes
	changes   []time.Duration // when it went out of the job, not by a failure of its ranks, and when it came again
	owed      map[int]bool    // slots whose process failed in an epoch that was counted, to be filled again
}

// running is the life of a process.
type life int

const (
	starting life = iota // it was ordered
	ready                // it waits to be let in for the first time
	joining              // it was let in
	running              // it works
	parked               // it waits to be let in again
	stopping             // it is being ended
)

// process is one that may be alive.
type process struct {
	Process
	life  life
	quiet bool          // it is being ended, and takes part in nothing since before
	epoch int           // that it is in, or was started for
	rank  int           // there
	since int           // see candidate
	at    time.Duration // of the last change of its life
	began time.Duration
}

// alive are the host's processes in the order of their slots.
func (h *host) alive() []*process {
	var all []*process
	for _, p := range h.procs {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *process) int { return a.Local - b.Local })
	return all
}

// usable says whether processes may be on the host.
func (h *host) usable(now time.Duration) bool {
	return h.slots > 0 && !h.lost && now >= h.asideTill
}

// within are the times that are not older than a span.
func within(times []time.Duration, span, now time.Duration) []time.Duration {
	return slices.DeleteFunc(times, func(at time.Duration) bool { return at <= now-span })
}

// mayCome says whether a host that has been in the job before may come again. One that comes and goes must not keep the
// job from working: it comes only if it may go again as well.
func (h *host) mayCome(most int, now time.Duration) bool {
	h.changes = within(h.changes, changeTime, now)
	return h.asides == 0 || len(h.changes) <= most-2
}

// setAside keeps processes off the host for a while, each time for longer. random is in [0, 1).
func (h *host) setAside(cooldown [2]time.Duration, random float64, now time.Duration) time.Duration {
	wait := h.cool(cooldown, random, now)
	h.left = true
	h.asideTill = max(h.asideTill, now+wait)
	return wait
}

// rest starts nothing on the host for a while, likewise. Processes that work there go on: they may be the last with the job's state.
func (h *host) rest(cooldown [2]time.Duration, random float64, now time.Duration) time.Duration {
	wait := h.cool(cooldown, random, now)
	h.restTill = max(h.restTill, now+wait)
	return wait
}

// cool is for how long, twice as long each time.
func (h *host) cool(cooldown [2]time.Duration, random float64, now time.Duration) time.Duration {
	if h.asides > 0 && now-h.asideAt > changeTime {
		h.asides = 0
	}
	wait := min(cooldown[0]<<min(h.asides, 20), cooldown[1])
	wait += time.Duration(random * float64(wait) / 4)
	h.asides++
	h.asideAt = now
	h.failures = nil
	return wait
}

// overspent counts a failure, and says whether there were more than the budget allows.
func (h *host) overspent(budget int, span, now time.Duration) bool {
	h.failures = append(within(h.failures, span, now), now)
	return len(h.failures) > budget
}
