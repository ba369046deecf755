package shm

// staging is a way to write bytes to a slot.
type staging uint32

const (
	// throughCache leaves them in the writer's cache: best if the reader shares that
	// cache, or reaches it fast.
	throughCache staging = iota
	// pastCache writes them to memory: best if processors are far apart, since dirty
	// lines of another's cache come one by one and memory comes in streams.
	pastCache
	stagings
)

const exploreEvery = 32 // calls

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

// tuner finds the faster staging by the time of whole calls. It tries the other one at
// intervals, since virtual processors move.
type tuner struct {
	cost  [stagings]float64 // time per byte, a moving average; 0: not known
	calls int
}

// next records the cost per byte of a call with used, and returns the staging for the next
// call.
func (t *tuner) next(used staging, perByte float64) staging {
	if t.cost[used] == 0 {
		t.cost[used] = perByte
	} else {
		// Clamped, since a rank may have been descheduled during this call.
		t.cost[used] = (t.cost[used] + min(perByte, 2*t.cost[used])) / 2
	}
	t.calls++
	other := pastCache - used
	if t.cost[other] == 0 || t.calls%exploreEvery == 0 {
		return other
	}
	if t.cost[other] < t.cost[used] {
		return other
	}
	return used
}
