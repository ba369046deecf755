package shm

// staging is how bytes are put into a slot.
type staging uint32

const (
	// throughCache leaves them in the writer's cache: best where the reader
	// shares that cache, or has a fast way to it.
	throughCache staging = iota
	// pastCache writes them to memory: best where processors are far apart,
	// since dirty lines of another's cache come one by one and memory comes in streams.
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

// class is the size class of a vector of so many bytes.
func class(bytes int) int {
	switch {
	case bytes < 128<<10:
		return 0
	case bytes < 4<<20:
		return 1
	}
	return 2
}

// tuner learns which staging is faster on this machine, now: virtual processors
// are moved about. It looks at whole calls, and tries the other way once in a while.
type tuner struct {
	cost  [stagings]float64 // time per byte, a moving average; 0: not known
	calls int
}

// next takes what a call with used cost per byte, and says what the next call
// should use. It is pure but for the tuner itself.
func (t *tuner) next(used staging, perByte float64) staging {
	if t.cost[used] == 0 {
		t.cost[used] = perByte
	} else {
		// One call in which a rank did not run says little.
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
