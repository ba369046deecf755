package meter

import (
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/sight/recorder"
)

// record is the record of collectives that a process publishes.
type record interface {
	Published() bool
	Totals() (recorder.Totals, error)
	Close()
}

func openRecord(pid int) (record, error) { return recorder.Open(pid) }

// calls are the collectives of a process. It may publish a record late, and in an elastic job one
// for each epoch.
type calls struct {
	record record       // nil: it publishes none now
	past   wire.RingUse // totals of earlier records
	last   wire.RingUse // totals of this record
	some   bool         // there was a record
	next   int          // reading in which to look for a record
	pause  int          // readings between two looks
}

// maxPause is the most readings between two looks for a process's record. A look reads the names of
// all its open files.
const maxPause = 16

// calls adds the collectives of a process to the use of its rank.
func (m *Meter) calls(p identity, to *wire.RingUse) *wire.RingUse {
	c := m.records[p]
	if c == nil {
		c = &calls{}
		m.records[p] = c
	}
	c.read(m.readings, func() (record, error) { return m.open(p.pid) })
	if !c.some {
		return to
	}
	if to == nil {
		to = &wire.RingUse{}
	}
	for _, u := range []wire.RingUse{c.past, c.last} {
		to.Calls += u.Calls
		to.Bytes += u.Bytes
		to.Time += u.Time
		to.Pending += u.Pending
	}
	return to
}

// read updates the sums. No sum ever shrinks: one reading may miss a communicator that closes
// meanwhile.
func (c *calls) read(reading int, open func() (record, error)) {
	if c.record != nil && !c.record.Published() {
		c.close()
		c.past = wire.RingUse{
			Calls:   c.past.Calls + c.last.Calls,
			Bytes:   c.past.Bytes + c.last.Bytes,
			Time:    c.past.Time + c.last.Time,
			Pending: c.past.Pending + c.last.Pending,
		}
		c.last = wire.RingUse{}
		c.pause = 0
		c.next = 0
	}
	if c.record == nil && reading >= c.next {
		c.pause = min(2*c.pause+1, maxPause)
		c.next = reading + c.pause
		if r, err := open(); err == nil {
			c.record = r
		}
	}
	if c.record == nil {
		return
	}
	t, err := c.record.Totals()
	if err != nil {
		return
	}
	c.some = true
	c.last = wire.RingUse{
		Calls:   max(c.last.Calls, int64(t.Calls)),
		Bytes:   max(c.last.Bytes, int64(t.Bytes)),
		Time:    max(c.last.Time, t.Time),
		Pending: max(c.last.Pending, t.Pending),
	}
}

func (c *calls) close() {
	if c.record != nil {
		c.record.Close()
		c.record = nil
	}
}

// forget closes the records of processes that have ended.
func (m *Meter) forget() {
	for p, c := range m.records {
		if _, runs := m.of[p]; !runs {
			c.close()
			delete(m.records, p)
		}
	}
}
