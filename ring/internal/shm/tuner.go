package shm

// staging is a way to write bytes to slots and results.
type staging uint32

const (
	// throughCache leaves both in the writer's cache: best if the reader shares that
	// cache, or reaches it fast, and results fit the cache.
	throughCache staging = iota
	// streamed writes results to memory: best if they do not fit the cache, which would
	// read their lines before they are written.
	streamed
	// pastCache writes slots to memory: best if processors are far apart, since dirty
	// lines of another's cache come one by one and memory comes in streams.
	pastCache
	stagings
)

const (
	exploreOften  = 40  // calls between two tries of another staging
	exploreSeldom = 320 // once tries change nothing
	// times the cost at the last try, for lateCalls calls in a row: the virtual processors have
	// moved
	moved     = 1.3
	lateCalls = 5
)

// minStreamed is the least result in bytes that may not fit the cache.
const minStreamed = 4 << 20

// of returns s for a result of so many bytes: a small one is not streamed.
func (s staging) of(bytes int) staging {
	if s == streamed && bytes < minStreamed {
		return throughCache
	}
	return s
}

// kind is a kind of call that is tuned on its own.
type kind int

const (
	reducing kind = iota
	scattering
	gatherings
)

const kinds = 3

// classes are the size classes that are tuned on their own: the cost per byte
// depends on the size.
const classes = 3

// class returns the size class of a vector of so many bytes.
func class(bytes int) int {
	switch {
	case bytes < 128<<10:
		return 0
	case bytes < 4<<20:
		return 1
	}
	return 2
}

// tuner finds the fastest staging by the time of whole calls. It tries the others in turn at
// intervals, since virtual processors move. Where that changes nothing the interval doubles.
type tuner struct {
	cost     [stagings]float64 // time per byte, a moving average; 0: not known
	last     staging           // staging of the last call
	calls    int
	tried    staging // staging of the last try
	due      int     // calls before the next try
	interval int     // calls between tries
	best     staging // best known staging
	usual    float64 // its cost at the last try
	late     int     // calls in a row that took longer
}

// next records the cost per byte of a call with used, and returns the staging for the next
// call.
func (t *tuner) next(used staging, perByte float64) staging {
	first := t.calls == 0 || used != t.last
	t.last = used
	t.calls++
	switch {
	case first:
		return used // once more: this call found the cache as another staging had left it
	case t.cost[used] == 0:
		t.cost[used] = perByte
	default:
		// Clamped, since a rank may have been descheduled during this call.
		t.cost[used] = (t.cost[used] + min(perByte, 2*t.cost[used])) / 2
	}
	if t.late++; perByte <= moved*t.usual {
		t.late = 0
	}
	best := t.fastest()
	if best != t.best || t.late == lateCalls {
		t.usual = t.cost[best]
		t.best = best
		t.interval = exploreOften
		t.due = t.calls + exploreOften
	}
	if t.calls < t.due {
		return best
	}
	if t.tried = (t.tried + 1) % stagings; t.tried == 0 {
		t.interval = min(2*t.interval, exploreSeldom)
	}
	t.usual = t.cost[best]
	t.due = t.calls + t.interval
	return t.tried
}

// fastest returns the staging of the least cost. One that is not known comes first.
func (t *tuner) fastest() staging {
	best := throughCache
	for s, cost := range t.cost {
		if cost < t.cost[best] {
			best = staging(s)
		}
	}
	return best
}
