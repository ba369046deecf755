package negotiate

import "time"

// entry is the state of one name: the requests since it was last complete, and the request
// that was agreed on then.
type entry struct {
	name string

	// Of the cache; agreed is valid only while id is not negative.
	id           int
	agreed       Request
	newer, older *entry // neighbours in order of use

	// By rank, its last request; nil until there is a request whose count may vary.
	counts []uint64

	// Of the open round.
	round
}

// round is one use of a name, from the first rank's request to the last one's.
type round struct {
	open     bool
	missing  int      // ranks that have not made their request, nor joined
	made     []uint64 // a bit for each rank that has
	want     Request  // request of the first rank
	first    int      // first rank
	odd      int      // the first rank whose request does not agree, -1 if all do
	oddSaid  Request
	since    time.Time
	reported time.Time // time of the last stall report, else zero
}

// has reports whether rank has made its request.
func (r *round) has(rank int) bool { return r.made[rank/64]>>(rank%64)&1 != 0 }

// mark records that rank has made its request.
func (r *round) mark(rank int) {
	r.made[rank/64] |= 1 << (rank % 64)
	r.missing--
}

// agreedBy returns the request that rank stands for when it sends e's id.
func (e *entry) agreedBy(rank int) Request {
	r := e.agreed
	if varies(r.Kind) {
		r.Count = e.counts[rank]
	}
	return r
}

// cache gives ids to the names that were complete most recently. It is equal on all
// ranks after equal steps.
type cache struct {
	limit  int
	slots  []*entry // entries by id
	newest *entry
	oldest *entry
}

// get returns the entry with an id, or nil.
func (c *cache) get(id uint64) *entry {
	if id >= uint64(len(c.slots)) {
		return nil
	}
	return c.slots[id]
}

// use makes e the most recently used, and gives it an id if it has none. It returns
// the entry that lost its id for that, if any.
func (c *cache) use(e *entry) (evicted *entry) {
	if c.limit == 0 || c.newest == e {
		return nil
	}
	switch {
	case e.id >= 0:
		c.unlink(e)
	case len(c.slots) < c.limit:
		e.id = len(c.slots)
		c.slots = append(c.slots, e)
	default:
		evicted = c.oldest
		c.unlink(evicted)
		e.id = evicted.id
		evicted.id = -1
		c.slots[e.id] = e
	}
	e.older = c.newest
	if c.newest != nil {
		c.newest.newer = e
	} else {
		c.oldest = e
	}
	c.newest = e
	return evicted
}

func (c *cache) unlink(e *entry) {
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		c.newest = e.older
	}
	if e.older != nil {
		e.older.newer = e.newer
	} else {
		c.oldest = e.newer
	}
	e.newer = nil
	e.older = nil
}
