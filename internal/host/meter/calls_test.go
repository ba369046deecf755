package meter

import (
	"errors"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/sight/recorder"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// shown is a record that a process shows.
type shown struct {
	totals recorder.Totals
	gone   bool
	closed int
}

func (s *shown) Published() bool                  { return !s.gone }
func (s *shown) Totals() (recorder.Totals, error) { return s.totals, nil }
func (s *shown) Close()                           { s.closed++ }

func TestCollectivesOfEpochsAddUp(t *testing.T) {
	m := machine(t, map[string]string{"proc/10/stat": stat(10, 5, 10, 1, 0, 1, 1, "S"),
		"proc/11/stat": stat(11, 10, 10, 1, 0, 1, 1, "S")})
	opened := 0
	now := (*shown)(nil)
	m.open = func(pid int) (record, error) {
		opened++
		if pid != 11 || now == nil || now.gone { // the rank is a shell, and its child the program
			return nil, errors.New("none")
		}
		return now, nil
	}
	ring := func() *wire.RingUse { return m.Ranks(map[int]int{4: 10})[0].Ring }
	if u := ring(); u != nil {
		t.Errorf("%+v", u)
	}
	for range 100 {
		ring()
	}
	check.That(t, opened <= 2*100/maxPause+8, "%d looks for records in 100 readings", opened)
	first := &shown{totals: recorder.Totals{Calls: 5, Bytes: 50, Time: time.Second}}
	now = first
	for i := 0; ring() == nil; i++ {
		must.That(t, i <= maxPause, "a record is not found")
	}
	if u := ring(); *u != (wire.RingUse{Calls: 5, Bytes: 50, Time: time.Second}) {
		t.Errorf("%+v", u)
	}
	first.totals.Calls = 4 // a communicator closes meanwhile
	if u := ring(); u.Calls != 5 {
		t.Errorf("%+v", u)
	}
	first.gone = true
	now = &shown{totals: recorder.Totals{Calls: 2, Bytes: 20, Pending: time.Minute}}
	if u := ring(); *u != (wire.RingUse{
		Calls:   7,
		Bytes:   70,
		Time:    time.Second,
		Pending: time.Minute,
	}) || first.closed != 1 {
		t.Errorf("%+v, closed %d times", u, first.closed)
	}
	now.gone = true
	if u := ring(); u.Calls != 7 {
		t.Errorf("after ring is closed: %+v", u)
	}
	again := &shown{}
	now = again
	m.records[identity{11, 777}].next = 0
	ring()
	m.Close()
	check.That(t, again.closed == 1, "closed %d times", again.closed)
}
