package ring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/internal/sight/recorder"
	"github.com/gorun/gorun/ring/internal/algorithms"
	"github.com/gorun/gorun/ring/internal/boot"
	"github.com/gorun/gorun/ring/internal/engine"
	"github.com/gorun/gorun/ring/internal/kernel"
	"github.com/gorun/gorun/ring/internal/rails"
	"github.com/gorun/gorun/ring/internal/tcp"
)

// Option configures [Init].
type Option func(*options)

type options struct {
	lookup     func(string) (string, bool)
	transport  string // auto, shm or tcp
	guard      secure.Guard
	stripes    int                  // connections between two ranks over each rail
	rails      int                  // the most between two ranks
	congestion string               // control of TCP, or "" for the system's
	algorithm  algorithms.Algorithm // the only one that may be, or 0
	order      string               // of reductions: auto or rank
	network    string               // RING_NETWORK: what the network costs; empty: it is measured
	cost       algorithms.Cost      // cost of network
	shard      int                  // bytes of a block that each leader exchanges; 0: what costs least
	kernels    kernel.Set
	stall      time.Duration  // after which a waiting call is reported; negative is never
	report     func(string)   // takes the report; nil: the agent
	left       int            // the epoch of an elastic job that this process was in; 0: none
	sockets    secure.Sockets // nil: no reports
}

// settings reads the RING_ variables, which the package comment describes.
func (o *options) settings() error {
	o.transport, _ = o.lookup("RING_TRANSPORT")
	switch o.transport {
	case "":
		o.transport = "auto"
	case "auto", "shm", "tcp":
	default:
		return fmt.Errorf("ring: RING_TRANSPORT=%q: it must be auto, shm or tcp", o.transport)
	}
	var err error
	if o.stripes, err = o.number("RING_STREAMS", secure.MaxStripes); err != nil {
		return err
	}
	if o.rails, err = o.number("RING_RAILS", rails.Most); err != nil {
		return err
	}
	switch checksum, _ := o.lookup("RING_CHECKSUM"); checksum {
	case "", "0":
	case "1":
		o.guard = secure.Checked
	default:
		return fmt.Errorf("ring: RING_CHECKSUM=%q: it must be 0 or 1", checksum)
	}
	if text, _ := o.lookup("RING_STALL"); text != "" && o.stall == 0 {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return fmt.Errorf("ring: RING_STALL=%q: it must be a duration such as 30s, or 0 for never", text)
		}
		if o.stall = d; d == 0 {
			o.stall = -1
		}
	}
	if o.stall == 0 {
		o.stall = defaultStall
	}
	o.congestion, _ = o.lookup("RING_CONGESTION")
	name, _ := o.lookup("RING_ALGORITHM")
	if o.algorithm, err = algorithms.ParseAlgorithm(name); err != nil {
		return fmt.Errorf("ring: RING_ALGORITHM: %w", err)
	}
	switch o.order, _ = o.lookup("RING_ORDER"); o.order {
	case "auto":
		o.order = "" // as ranks of earlier versions send it
	case "", "rank":
	default:
		return fmt.Errorf("ring: RING_ORDER=%q: it must be auto or rank", o.order)
	}
	if o.network, _ = o.lookup("RING_NETWORK"); o.network != "" {
		if o.cost, err = algorithms.ParseNetwork(o.network); err != nil {
			return fmt.Errorf("ring: RING_NETWORK: %w", err)
		}
	}
	limit, _ := o.lookup("RING_SIMD")
	if o.kernels, err = kernel.Detect(limit); err != nil {
		return fmt.Errorf("ring: RING_SIMD: %w", err)
	}
	return nil
}

// number reads a variable that is a number from 1, which it is by default, to most.
func (o *options) number(name string, most int) (int, error) {
	text, _ := o.lookup(name)
	if text == "" {
		return 1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("ring: %s=%q: it must be a number from 1 to %d", name, text, most)
	}
	return n, nil
}

// WithEnviron makes Init read the rank's environment with lookup instead of [os.LookupEnv]. Tests
// use it to run several ranks in one process.
func WithEnviron(lookup func(name string) (value string, ok bool)) Option {
	return func(o *options) { o.lookup = lookup }
}

// WithSockets reports opened and closed sockets to other ranks, so that forked children can close
// them: a child that keeps one open hides this rank's end from its peers. Report is called after a
// socket is opened and before it is closed, and must not call the package.
func WithSockets(report func(fd int, open bool)) Option {
	return func(o *options) { o.sockets = report }
}

// Init joins the job for which gorun started this process, and returns when all ranks have joined.
// A process that gorun has not started is a world of one.
//
// Ctx bounds only Init. If the job fails meanwhile, Init returns a [*PeerError]. In an elastic job
// (see [Elastic]) Init waits for the next epoch, and for the one after it if a rank fails
// meanwhile.
func Init(ctx context.Context, opts ...Option) (*Comm, error) {
	o := options{lookup: os.LookupEnv}
	for _, opt := range opts {
		opt(&o)
	}
	if err := o.settings(); err != nil {
		return nil, err
	}
	self, launched, err := rankenv.FromEnviron(o.lookup)
	if err != nil {
		return nil, fmt.Errorf("ring: %w", err)
	}
	if !launched {
		return alone(o), nil
	}
	if self.Network.Encrypt {
		o.guard = secure.Encrypted // this checks too
	}
	if self.Elastic {
		return joinEpoch(ctx, self, o)
	}
	return joinJob(ctx, self, o, nil)
}

// joinJob makes this process the rank at self. Job is the agent's description of it, or nil to ask
// for it.
func joinJob(ctx context.Context, self rankenv.Rank, o options, job *boot.Job) (*Comm, error) {
	c := newComm(context.Background(), self, o)
	c.agent = boot.NewClient(self.Agent, self.Token)
	c.owner = true
	guard, _ := o.lookup("GORUN_GUARD")
	recorder.AllowTracer(guard)
	c.record, _ = recorder.New(self.Rank, self.Size, self.Epoch) // a rank works without
	c.work.Go(c.watch)
	if err := c.enter(ctx, job); err != nil {
		err = c.fail(ctx, "init", err)
		c.Close()
		return nil, err
	}
	c.record.Joined()
	c.startStallSampler()
	return c, nil
}

func alone(o options) *Comm {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	c := newComm(context.Background(), rankenv.Rank{
		Size:      1,
		LocalSize: 1,
		CrossSize: 1,
		Host:      host,
	}, o)
	c.use(engine.New(engine.NewLayout(0, [][]int{{0}}), nil, nil, o.shard, o.kernels))
	return c
}

// watch ends the Comm when the job fails. It returns when the Comm ends.
func (c *Comm) watch() {
	if abort := c.agent.WatchAbort(c.life); abort != nil {
		c.end(c.aborted(abort))
	}
}

func (c *Comm) aborted(a *boot.Abort) error {
	return &PeerError{Rank: a.Rank, Host: a.Host, Cause: errors.New(a.Cause)}
}

// enter makes c a member of the whole job.
func (c *Comm) enter(ctx context.Context, job *boot.Job) error {
	ctx, cancel := c.within(ctx)
	defer cancel(nil)

	// Local errors come before the other ranks wait for this one.
	if _, err := c.addresses(); err != nil {
		return c.initError(err)
	}
	if job == nil {
		said, err := c.agent.Job(ctx)
		if err != nil {
			return c.initError(err)
		}
		job = &said
	}
	self, err := c.identify(*job)
	if err != nil {
		return c.initError(err)
	}
	return c.initError(c.join(ctx, self, func(name string, value []byte) ([][]byte, error) {
		return c.agent.Fence(ctx, fmt.Sprintf("ring/%d/%s", c.self.Epoch, name), value)
	}))
}

// identify takes the job's key, and checks that agent and environment describe the same rank.
func (c *Comm) identify(job boot.Job) (secure.Identity, error) {
	p := c.self
	if job.ID != p.Job || job.Epoch != p.Epoch || job.Rank != p.Rank || job.Size != p.Size {
		return secure.Identity{}, fmt.Errorf("agent knows rank %d of %d of job %s epoch %d, environment says rank %d "+
			"of %d of job %s epoch %d",
			job.Rank, job.Size, job.ID, job.Epoch, p.Rank, p.Size, p.Job, p.Epoch)
	}
	c.key = job.Key
	return secure.Identity{
		Job:   job.ID,
		Epoch: job.Epoch,
		Rank:  job.Rank,
		Size:  job.Size,
		Key:   job.Key,
	}, nil
}

// initError classifies err as a failure of the job, of another rank, or of this process.
func (c *Comm) initError(err error) error {
	var abort *boot.Abort
	var peer *tcp.PeerError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &abort):
		return c.aborted(abort)
	case errors.As(err, &peer):
		return &engine.LinkError{Rank: peer.Rank, Err: peer.Err}
	case errors.As(err, new(*PeerError)), errors.As(err, new(*MismatchError)), errors.As(err, new(*engine.LinkError)):
		return err
	}
	return fmt.Errorf("ring: init: %w", err)
}
