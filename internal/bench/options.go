package bench

import (
	"fmt"
	"time"

	"github.com/gorun/gorun/ring"
)

// Options selects the calls to time.
type Options struct {
	Collective string        // one of [Collectives]
	Types, Ops []string      // names, or "all"; empty: float, and sum where elements are combined
	Min, Max   int           // bytes of the whole vector
	Factor     int           // factor between sizes; 0 means 2
	Budget     time.Duration // time limit of a row
	Batch      int           // calls timed together; 0: enough for the clock
	Wire       bool          // whether one plain TCP connection between two ranks is timed too
	Device     string        // memory under test: empty or "cpu", or "cuda"
}

// Check returns an error for options that no benchmark can have.
func (o Options) Check() error {
	_, _, err := o.resolve()
	return err
}

// resolve converts the names of collectives, types and operations.
func (o Options) resolve() (collective, []combination, error) {
	c, known := find(o.Collective)
	switch {
	case !known:
		return c, nil, fmt.Errorf("unknown benchmark %q", o.Collective)
	case o.Min < 1 || o.Max < o.Min:
		return c, nil, fmt.Errorf("sizes from %d to %d bytes: expected 1 or more, the smaller first", o.Min, o.Max)
	case o.Device != "" && o.Device != "cpu" && o.Device != "cuda":
		return c, nil, fmt.Errorf("unknown device %q: expected cpu or cuda", o.Device)
	case o.Factor < 0 || o.Factor == 1:
		return c, nil, fmt.Errorf("a factor of %d between sizes: expected 2 or more", o.Factor)
	case o.Batch < 0:
		return c, nil, fmt.Errorf("%d calls timed together: expected 1 or more", o.Batch)
	case !c.combines() && len(o.Ops) > 0:
		return c, nil, fmt.Errorf("%s has no operation, it moves elements as they are", c.name)
	case c.kind == ring.KindBarrier && len(o.Types) > 0:
		return c, nil, fmt.Errorf("%s has no type, it moves no elements", c.name)
	case c.kind == ring.KindBarrier && o.Wire:
		return c, nil, fmt.Errorf("%s has no bandwidth, it moves no elements", c.name)
	case c.kind == ring.KindBarrier && o.Device == "cuda":
		return c, nil, fmt.Errorf("%s has no device, it moves no elements", c.name)
	}
	all, err := combinations(o.Types, o.Ops, c.combines())
	return c, all, err
}

// sizes returns the vectors to time, in bytes.
func (o Options) sizes(c collective) (all []int) {
	if c.kind == ring.KindBarrier {
		return []int{0}
	}
	for bytes := o.Min; bytes <= o.Max; bytes *= max(o.Factor, 2) {
		all = append(all, bytes)
	}
	return all
}
