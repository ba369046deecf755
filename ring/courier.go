package ring

import (
	"sync"

	"github.com/gorun/gorun/ring/internal/algorithms"
	"github.com/gorun/gorun/ring/internal/flow"
)

// courier does one step at a time for a team, while its user does something else.
type courier struct {
	team  *algorithms.Team
	steps chan step
	done  chan error
	busy  bool // a step was started and not waited for
	ended sync.WaitGroup
}

// step is an allreduce of buf in place, or a broadcast of it.
type step struct {
	sign   *flow.Sign
	reduce algorithms.Reduction
	buf    []byte
	root   int // of a broadcast, else -1
}

func newCourier(team *algorithms.Team) *courier {
	c := &courier{team: team, steps: make(chan step), done: make(chan error, 1)}
	c.ended.Go(func() {
		for s := range c.steps {
			c.done <- c.carry(s)
		}
	})
	return c
}

func (c *courier) carry(s step) error {
	if s.root >= 0 {
		return c.team.Broadcast(s.sign, s.buf, s.root)
	}
	return c.team.AllReduce(s.sign, s.reduce, s.buf, s.buf)
}

// start hands over a step. Wait comes before the next one.
func (c *courier) start(s step) {
	c.busy = true
	c.steps <- s
}

// wait returns when the step is over.
func (c *courier) wait() error {
	err := <-c.done
	c.busy = false
	return err
}

func (c *courier) close() {
	close(c.steps)
	c.ended.Wait()
}
