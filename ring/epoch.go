package ring

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/ring/internal/boot"
)

// ErrHostsUpdated is returned by [Comm.CheckHosts] and [Commit] when hosts have joined or will
// leave: the ranks must leave their epoch and join the next one. [Elastic] does that when train
// returns it.
var ErrHostsUpdated = errors.New("ring: the job's hosts have changed: the ranks go on in another epoch")

// AfterEpoch makes Init join the first epoch of an elastic job after the given one, in which this
// process was a rank and whose Comm it has closed. 0, the default, means that it was in none.
func AfterEpoch(number int) Option { return func(o *options) { o.left = number } }

// Epoch returns the number of the epoch of an elastic job, from 1, or 0 where the job is not
// elastic.
func (c *Comm) Epoch() int { return c.self.Epoch }

// FirstEpoch returns the number of the epoch that [Init] first tried to join, or 0 where the job is
// not elastic. It is below Epoch if that epoch failed while its ranks joined: ranks that had joined
// it may have trained.
func (c *Comm) FirstEpoch() int { return c.first }

// joinEpoch waits for the next epoch and joins it. If the epoch fails while its ranks join, it
// waits for another.
func joinEpoch(ctx context.Context, self rankenv.Rank, o options) (*Comm, error) {
	for left, first := o.left, 0; ; left = self.Epoch {
		job, err := park(ctx, self, left)
		if err != nil {
			return nil, err
		}
		if first == 0 {
			first = job.Epoch
		}
		self = moved(self, job)
		c, err := joinJob(ctx, self, o, &job)
		if err == nil {
			err = c.joined(ctx)
		}
		switch {
		case err == nil:
			c.first = first
			return c, nil
		case !errors.As(err, new(*PeerError)):
			return nil, err
		}
	}
}

// park asks the agent for the epoch after left, and waits for it.
func park(ctx context.Context, self rankenv.Rank, left int) (boot.Job, error) {
	agent := boot.NewClient(self.Agent, self.Token)
	defer agent.Close()
	job, err := agent.Park(ctx, left)
	if abort := new(boot.Abort); errors.As(err, &abort) {
		return job, &PeerError{
			Rank:  abort.Rank,
			Host:  abort.Host,
			Op:    "init",
			Cause: errors.New(abort.Cause),
		}
	}
	if err != nil {
		return job, fmt.Errorf("ring: init: %w", err)
	}
	return job, nil
}

// moved returns a rank's description in another epoch. Its host stays.
func moved(self rankenv.Rank, job boot.Job) rankenv.Rank {
	self.Epoch = job.Epoch
	self.Rank = job.Rank
	self.Size = job.Size
	self.LocalRank = job.LocalRank
	self.LocalSize = job.LocalSize
	self.CrossRank = job.CrossRank
	self.CrossSize = job.CrossSize
	if len(job.Addrs) > 0 {
		self.Addr = job.Addrs[0]
		self.Addrs = job.Addrs
	}
	return self
}

// joined reports to the launcher that this rank has joined the epoch, and starts to watch for
// changes of the hosts.
func (c *Comm) joined(ctx context.Context) error {
	if err := c.agent.Joined(ctx); err != nil {
		c.Close()
		return fmt.Errorf("ring: init: %w", err)
	}
	c.updated = new(atomic.Bool)
	c.work.Go(func() {
		if c.agent.WatchInterrupt(c.life, c.self.Epoch) {
			c.updated.Store(true)
		}
	})
	return nil
}

// HostsUpdated reports whether this rank knows that hosts have joined or will leave. Other ranks
// may not know it yet: to leave the epoch together, ranks call [Comm.CheckHosts].
func (c *Comm) HostsUpdated() bool { return c.updated != nil && c.updated.Load() }

// CheckHosts returns [ErrHostsUpdated] on all ranks if one of them knows that hosts have joined or
// will leave. It is a collective: all ranks call it at the same point. In a job that is not elastic
// it does nothing.
func (c *Comm) CheckHosts(ctx context.Context) error {
	if c.updated == nil {
		return nil
	}
	heard := []int32{0}
	if c.HostsUpdated() {
		heard[0] = 1
	}
	if err := AllReduce(ctx, c, heard, Max); err != nil {
		return err
	}
	if heard[0] != 0 {
		return ErrHostsUpdated
	}
	return nil
}
