package elastic

import (
	"slices"
	"time"
)

// changeTime is the time for which a host's arrivals and departures count against it.
const changeTime = time.Hour

// host is the state of one host.
type host struct {
	name    string
	arrival int // position in the order of arrival
	slots   int // slots in the list; 0 if the host is not listed
	procs   map[int]*process

	lost      bool // whether the host is lost and not yet fenced
	lostAt    time.Duration
	left      bool // whether the host left the job or is leaving, not because its ranks failed
	asides    int  // number of times that the host was set aside since it was last well for long
	asideAt   time.Duration
	asideTill time.Duration
	restTill  time.Duration   // time until which no process is started there; running ones stay
	failures  []time.Duration // times of its processes' failures
	changes   []time.Duration // times at which it left, not because its ranks failed, and came back
	found     bool            // whether it was listed, or got slots, since the epoch in force began
	owed      map[int]bool    // slots whose process failed in a counted epoch, to be refilled without a reset
}

// life is the state of a process.
type life int

const (
	starting life = iota // the states are ordered
	ready                // waiting for the first epoch
	joining              // admitted to an epoch
	running              // working
	parked               // waiting for the next epoch
	stopping             // being stopped
)

// process is a process that may be alive.
type process struct {
	Process
	life   life
	at     time.Duration // time of the last change of life
	before life          // state before stopping
	now    bool          // whether it is stopped without grace
	epoch  int           // current epoch, or the one that it was started for
	rank   int           // rank in that epoch
	spare  bool          // whether it may take the place of a member; it was in no epoch yet
	slow   bool          // whether a spare is to take its place
	asked  bool          // whether it has asked for an epoch
	since  int           // first whole epoch, as in candidate
	began  time.Duration
	up     bool // whether the process has run since upAt
	upAt   time.Duration
}

// alive returns the host's processes in slot order.
func (h *host) alive() []*process {
	var all []*process
	for _, p := range h.procs {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *process) int { return a.Local - b.Local })
	return all
}

// usable reports whether the host may have processes.
func (h *host) usable(now time.Duration) bool {
	return h.slots > 0 && !h.lost && now >= h.asideTill
}

// within returns the times that are not older than span.
func within(times []time.Duration, span, now time.Duration) []time.Duration {
	return slices.DeleteFunc(times, func(at time.Duration) bool { return at <= now-span })
}

// mayCome reports whether a host that was in the job before may join again. A flapping host must
// not keep the job from working: it may join only if the limit also leaves room for its next
// departure.
func (h *host) mayCome(most int, now time.Duration) bool {
	h.changes = within(h.changes, changeTime, now)
	return h.asides == 0 || len(h.changes) <= most-2
}

// setAside keeps the host out of the job for a cooldown that grows each time. random is in [0, 1).
func (h *host) setAside(cooldown [2]time.Duration, random float64, now time.Duration) time.Duration {
	wait := h.cool(cooldown, random, now)
	h.left = true
	h.asideTill = max(h.asideTill, now+wait)
	return wait
}

// exclude keeps the host out of the job after a failure, as horovodrun does: 2, 4, 8 … times the
// first cooldown, plus up to once that for jitter, at most the longest one.
func (h *host) exclude(cooldown [2]time.Duration, random float64, now time.Duration) time.Duration {
	wait := cooldown[1]
	if h.asides++; h.asides < 20 && cooldown[0] < forever {
		wait = min(cooldown[0]<<h.asides+time.Duration(random*float64(cooldown[0])), cooldown[1])
	}
	h.asideAt = now
	h.asideTill = max(h.asideTill, now+wait)
	return wait
}

// rest starts no process on the host for a cooldown. Running processes stay: they may be the last
// with the job's state.
func (h *host) rest(cooldown [2]time.Duration, random float64, now time.Duration) time.Duration {
	wait := h.cool(cooldown, random, now)
	h.restTill = max(h.restTill, now+wait)
	return wait
}

// cool returns the next cooldown, which doubles each time.
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

// overspent counts a failure and reports whether the budget is exceeded.
func (h *host) overspent(budget int, span, now time.Duration) bool {
	h.failures = append(within(h.failures, span, now), now)
	return len(h.failures) > budget
}
