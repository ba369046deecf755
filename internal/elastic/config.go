package elastic

import (
	"errors"
	"fmt"
	"time"
)

// CodeNoRank is the exit code of a job that ended by no rank's own: a host was lost, or too few were there.
const CodeNoRank = 125

// Config is what a user wants of an elastic job. The zero value of a limit or a time is its default.
type Config struct {
	NP, Min, Max int // ranks to begin with, at least, and at most (Max 0: as many as there are slots)

	Elastic     time.Duration    // how long to wait for slots, and to try for an epoch: 600 s
	ResetLimit  int              // epochs after the first that may begin; 0: any number
	ResetWindow time.Duration    // in which they are counted; 0: the whole job
	Budget      int              // failures of a host's processes within BudgetTime before it is set aside: 3
	BudgetTime  time.Duration    // 10 min
	Changes     int              // how often a host that comes and goes may change the job within an hour: 6
	Cooldown    [2]time.Duration // for how long a host is set aside: first, doubling, at most; 10 s and 300 s

	Start  time.Duration // from Start to Ready: 120 s
	Join   time.Duration // from Announce to Joined: 60 s
	Park   time.Duration // from the first sign that an epoch is over until all have parked: 60 s
	Call   time.Duration // from Interrupt until the first has parked: 10 min
	Stop   time.Duration // from Stop to Exited, grace included: 8 s
	Fence  time.Duration // from the loss of a host until nothing of the job is alive there, come what may: 12 s
	Finish time.Duration // from trouble after a rank has finished with 0 until the others are ended: 10 s

	StartOver   bool   // when no rank with state is left, begin anew (as torchrun does) instead of ending
	Together    bool   // ranks know nothing of epochs: all of one are new processes; implies StartOver
	OneIsEnough bool   // ranks that ask for an epoch after another has finished with 0 do not spoil the job
	Own         string // the launcher's host, if it may be among the job's: it is not removed

	Random func() float64 // in [0, 1), for jitter; nil: none
}

// check fills in what is missing.
func (c *Config) check() error {
	if c.Min == 0 {
		c.Min = c.NP
	}
	switch {
	case c.NP < 1 || c.Min < 1:
		return errors.New("an elastic job needs at least 1 rank")
	case c.Min > c.NP:
		return fmt.Errorf("%d ranks to begin with are fewer than the least, %d", c.NP, c.Min)
	case c.Max != 0 && c.Max < c.NP:
		return fmt.Errorf("%d ranks to begin with are more than the most, %d", c.NP, c.Max)
	}
	for _, d := range []struct {
		at      *time.Duration
		usually time.Duration
	}{
		{&c.Elastic, 600 * time.Second}, {&c.BudgetTime, 10 * time.Minute}, {&c.Cooldown[0], 10 * time.Second}, {&c.Cooldown[1], 300 * time.Second},
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

// usualBudget is how many failures of a host's processes are borne with.
const usualBudget = 3

// maxRanks bounds a job.
const maxRanks = 1 << 20
