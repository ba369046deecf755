package elastic

import (
	"errors"
	"fmt"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
)

// CodeNoRank is the exit code of a job that no rank's failure ended: a host was lost, or there were
// too few slots.
const CodeNoRank = wire.CodeHostFailed

// Config holds the settings of an elastic job. A zero limit or duration means its default.
type Config struct {
	NP, Min, Max int // initial, minimum and maximum ranks; Max 0 means all slots, less Spares
	Spares       int // processes that wait, beyond the ranks, to take the place of one that fails

	Timeout     time.Duration    // bounds the wait for slots and the attempts at an epoch; default 600 s
	ResetLimit  int              // maximum number of resets (epochs after the first); 0 means no limit
	ResetWindow time.Duration    // window in which resets count; 0 means the whole job
	Budget      int              // failures of a host's processes within BudgetTime before it rests; default 3
	BudgetTime  time.Duration    // default 10 min
	Changes     int              // how often one host may leave and join within an hour; default 6
	Cooldown    [2]time.Duration // first and longest cooldown of a host, doubling in between; default 10 s and 300 s

	Start time.Duration // bound from Start to Ready; default 120 s
	Join  time.Duration // bound from Announce to Joined; default 60 s
	Park  time.Duration // bound from the first sign of an epoch's end until all have parked; default 60 s
	Call  time.Duration // bound from Interrupt until the first has parked; default 10 min
	Stop  time.Duration // bound from Stop to Exited, grace included; default 8 s
	// from the loss of a host until its agents' lease has certainly ended the job there; default 12
	// s
	Fence  time.Duration
	Finish time.Duration // bound from trouble after a rank's success until the others are stopped; default 10 s

	StartOver bool // whether to start over, as torchrun does, if no rank with state is left
	Together  bool // whether every epoch starts new processes, unaware of epochs; implies StartOver
	// Horovodrun decides as horovodrun does: the job starts with all slots up to Max, a host with a
	// failed process gets no more, and the ranks are called as soon as a host is found, before its
	// processes are ready.
	Horovodrun  bool
	OneIsEnough bool   // whether a rank may park after another finished with 0 without failing the job
	Own         string // name of the launcher's own host, which is never removed; "" means none

	Random func() float64 // random number in [0, 1) for jitter; nil means no jitter
}

// check validates c and sets defaults.
func (c *Config) check() error {
	if c.Min == 0 {
		c.Min = c.NP
	}
	switch {
	case c.NP < 1 || c.Min < 1:
		return errors.New("an elastic job needs at least 1 rank")
	case c.Min > c.NP:
		return fmt.Errorf("%d ranks to begin with are fewer than the least, %d", c.NP, c.Min)
	case c.Horovodrun && c.Together:
		return errors.New("ranks that are replaced together cannot follow horovodrun's rules")
	case c.Spares > 0 && (c.Horovodrun || c.Together):
		return errors.New("ranks that are replaced together, or by horovodrun's rules, have no spares")
	case c.Max != 0 && c.Max < c.NP:
		return fmt.Errorf("%d ranks to begin with are more than the most, %d", c.NP, c.Max)
	}
	if c.Horovodrun && c.Cooldown[0] == 0 {
		c.Cooldown = [2]time.Duration{forever, forever}
	}
	for _, d := range []struct {
		at      *time.Duration
		usually time.Duration
	}{
		{&c.Timeout, 600 * time.Second}, {&c.BudgetTime, 10 * time.Minute}, {&c.Cooldown[0], 10 * time.Second},
		{&c.Cooldown[1], 300 * time.Second},
		{&c.Start, 120 * time.Second}, {&c.Join, time.Minute}, {&c.Park, time.Minute}, {&c.Call, 10 * time.Minute},
		{&c.Stop, 8 * time.Second}, {&c.Fence, 12 * time.Second}, {&c.Finish, 10 * time.Second},
	} {
		if *d.at == 0 {
			*d.at = d.usually
		}
	}
	c.StartOver = c.StartOver || c.Together
	c.Cooldown[1] = max(c.Cooldown[1], c.Cooldown[0])
	if c.Budget == 0 {
		c.Budget = usualBudget
	}
	if c.Changes == 0 {
		c.Changes = 6
	}
	if c.Max == 0 {
		c.Max = maxRanks
	}
	if c.Random == nil {
		c.Random = func() float64 { return 0 }
	}
	return nil
}

// usualBudget is the default number of failures of a host's processes that are tolerated.
const usualBudget = 3

// forever is a cooldown that does not end: 292 years would overflow when it is added to a time.
const forever = 100 * 365 * 24 * time.Hour

// maxRanks bounds a job.
const maxRanks = 1 << 20
