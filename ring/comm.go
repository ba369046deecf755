package ring

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/internal/sight/recorder"
	"github.com/gorun/gorun/ring/internal/algorithms"
	"github.com/gorun/gorun/ring/internal/boot"
	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/engine"
	"github.com/gorun/gorun/ring/internal/stall"
)

// Bounds on reporting a lost link, and on waiting for the launcher to name the rank that failed
// first. Together they stay below one second.
const (
	reportTimeout  = 300 * time.Millisecond
	verdictTimeout = 400 * time.Millisecond
)

// Comm is this rank's membership in its job, or in a part of it made by [Split] or [Group]. Its
// methods and the collectives are safe for concurrent use.
type Comm struct {
	membership
	key  []byte // secret of the job and epoch
	opts options
	cost *algorithms.Cost // cost of the network between domains; nil if not measured

	// life ends when the Comm can no longer work: by an abort of the job, a lost link, a cancelled
	// call or Close. Its cause is the first of these.
	life context.Context
	end  context.CancelCauseFunc

	agent *boot.Client // nil in a world of one
	owner bool         // this Comm closes agent
	// updated is set when hosts have joined or will leave; nil where the job is not elastic. Parts
	// share it.
	updated *atomic.Bool
	first   int         // epoch that Init first tried to join
	trip    *trip       // in which Elastic has made it; nil: it has not
	broken  atomic.Bool // life has ended; waits in shared memory poll it
	private atomic.Bool // a rank that leaves it is no failure of the job
	work    sync.WaitGroup
	later   backlog // started calls
	post    stall.Post
	record  *recorder.Recorder // record of this process; parts share it
	place   place

	calls callState

	broke atomic.Pointer[error] // error of the first failed call; stored under calls
}

// callState is what the running collective uses and changes.
type callState struct {
	sync.Mutex // held by the collective that is running; guards what follows
	fabric     *engine.Fabric
	seq        uint64
	splits     int
	lane       *recorder.Lane
	label      label
}

// membership is which rank of which ranks this process is.
type membership struct {
	self  rankenv.Rank
	name  string   // empty for the whole job
	hosts []string // names of the hosts, by rank
	ranks []int    // numbers in the whole job, by rank; nil when they are the same
}

// label names the tensors that the next calls move. A queue sets it.
type label struct {
	name string
	more int // tensors besides the named one
}

func newComm(parent context.Context, self rankenv.Rank, o options) *Comm {
	c := &Comm{membership: membership{self: self}, opts: o}
	c.life, c.end = context.WithCancelCause(parent)
	context.AfterFunc(c.life, func() { c.broken.Store(true) })
	c.later.init(c)
	return c
}

// Rank returns this rank's number, from 0.
func (c *Comm) Rank() int { return c.self.Rank }

// Size returns the number of ranks.
func (c *Comm) Size() int { return c.self.Size }

// LocalRank returns this rank's number among the ranks of its host, from 0.
func (c *Comm) LocalRank() int { return c.self.LocalRank }

// LocalSize returns the number of ranks on this host.
func (c *Comm) LocalSize() int { return c.self.LocalSize }

// CrossRank returns this host's number among the hosts that have a rank with this LocalRank.
func (c *Comm) CrossRank() int { return c.self.CrossRank }

// CrossSize returns the number of hosts that have a rank with this LocalRank.
func (c *Comm) CrossSize() int { return c.self.CrossSize }

// Host is the name of this rank's host, as the user wrote it.
func (c *Comm) Host() string { return c.self.Host }

// Close leaves the job, or the part of it. Running and started calls fail with [ErrClosed]. Ranks
// that still wait for this one get a [*PeerError], so close after the last call. Closing again does
// nothing.
func (c *Comm) Close() error {
	c.end(ErrClosed)
	c.later.close()
	c.calls.Lock()
	c.leave()
	c.calls.Unlock()
	c.work.Wait()
	if c.owner {
		c.agent.Close()
		c.record.Close()
	}
	return nil
}

// Do makes the call that w describes and returns when this rank's part is done. It returns an
// error, and sends nothing, if w is invalid.
func (c *Comm) Do(ctx context.Context, w Collective) error { return c.do(ctx, &w) }

func (c *Comm) do(ctx context.Context, w *Collective) error {
	var call Call
	if err := c.check(w, &call); err != nil {
		return err
	}
	untie := c.tie(ctx, call.Kind) // also while it waits for earlier calls
	c.later.drain()
	return c.make(ctx, untie, w, &call)
}

// check validates w on this Comm, and sets call to its description.
func (c *Comm) check(w *Collective, call *Call) error {
	err := collective.Check(w, c.Rank(), c.Size(), call)
	call.Epoch = uint64(c.self.Epoch)
	return err
}

// run makes one call after the running one has returned.
func (c *Comm) run(ctx context.Context, w *Collective, call *Call) error {
	return c.make(ctx, c.tie(ctx, call.Kind), w, call)
}

// make is run for a call that is tied to ctx.
func (c *Comm) make(ctx context.Context, untie func() error, w *Collective, call *Call) error {
	c.calls.Lock()
	defer c.calls.Unlock()
	return c.next(ctx, untie, w, call)
}

// next makes one call. calls is held.
func (c *Comm) next(ctx context.Context, untie func() error, w *Collective, call *Call) error {
	if err := c.over(call.Kind); err != nil {
		// it will never run: the job cannot finish without it
		if cerr := untie(); cerr != nil && errors.Is(cerr, ctx.Err()) {
			c.report(c.inJob(c.Rank()), cerr)
		}
		return err
	}
	if call.Kind != KindMessage {
		c.calls.seq++
	}
	call.Seq = c.calls.seq
	c.post.Enter(call, w.To, w.From)
	bytes := max(w.Dst.Len, w.Src.Len) * w.Type.Size()
	c.calls.lane.Enter(uint8(call.Kind), call.Seq, uint64(bytes), w.To, w.From, c.calls.label.name, c.calls.label.more)
	err := c.calls.fabric.Run(w, call)
	c.calls.lane.Leave(c.calls.fabric.Brief(bytes))
	c.post.Leave()
	if cerr := untie(); err == nil {
		err = cerr
	}
	if err != nil {
		return c.fail(ctx, call.Kind.String(), err)
	}
	return nil
}

// failure returns the error that broke the Comm, or nil. It does not block.
func (c *Comm) failure() error {
	if err := c.broke.Load(); err != nil {
		return *err
	}
	return nil
}

// over returns the error of a call if the Comm is broken, or nil.
func (c *Comm) over(kind Kind) error {
	if err := c.failure(); err != nil || c.life.Err() == nil {
		return err
	}
	err := during(kind.String(), context.Cause(c.life))
	c.broke.Store(&err)
	c.leave()
	return err
}

// within derives a context that also ends with the Comm. The caller must call cancel.
func (c *Comm) within(ctx context.Context) (within context.Context, cancel context.CancelCauseFunc) {
	within, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.life, func() { end(context.Cause(c.life)) })
	return within, func(cause error) {
		stop()
		end(cause)
	}
}

// tie ends the Comm when ctx ends, until untie is called. Untie returns the error if it did.
func (c *Comm) tie(ctx context.Context, op Kind) (untie func() error) {
	if ctx.Done() == nil || c.life.Err() != nil {
		return noError
	}
	stop := context.AfterFunc(ctx, func() {
		c.end(fmt.Errorf("ring: %v: %w", op, ctx.Err()))
	})
	return func() error {
		if stop() {
			return nil
		}
		<-c.life.Done()
		return context.Cause(c.life)
	}
}

func noError() error { return nil }

// fail breaks the Comm after call op failed with err, reports it to the job if the job does not
// know yet, and returns the error of this call and all later ones. After it returns nothing touches
// the caller's buffers.
func (c *Comm) fail(ctx context.Context, op string, err error) error {
	mismatch := new(MismatchError)
	lost := new(engine.LinkError)
	cancelled := ctx.Err() != nil && errors.Is(context.Cause(c.life), ctx.Err())
	switch {
	case errors.As(err, &mismatch):
		c.reportLost(c.inJob(mismatch.Peer), err)
		c.end(err)
	case cancelled:
		err = context.Cause(c.life)
		c.report(c.inJob(c.Rank()), err)
	case c.life.Err() != nil:
		err = context.Cause(c.life)
	case errors.As(err, &lost):
		c.report(c.inJob(lost.Rank), lost.Err)
		err = c.verdict(&PeerError{Rank: c.inJob(lost.Rank), Host: c.host(lost.Rank), Cause: lost.Err})
		c.end(err)
	}
	err = during(op, err)
	c.broke.Store(&err)
	c.leave()
	return err
}

// inJob converts a rank to its number in the whole job.
func (c *membership) inJob(rank int) int {
	if c.ranks == nil {
		return rank
	}
	return c.ranks[rank]
}

// Private makes the loss of a rank in c an error of its calls only: the job is not aborted for it.
// So ranks may leave c while others wait for them, and the job goes on. The job still notices that
// a process has ended, and still learns of mismatches. Call it before c's first call.
func (c *Comm) Private() { c.private.Store(true) }

// report is reportLost, or reportLeft if c is private.
func (c *Comm) report(rank int, cause error) {
	switch {
	case !c.private.Load():
		c.reportLost(rank, cause)
	case rank != c.inJob(c.Rank()):
		c.reportLeft(rank, cause)
	}
}

// reportLost notifies the job through the agent that rank is lost. If the agent cannot be reached,
// closed links inform the neighbours.
func (c *Comm) reportLost(rank int, cause error) {
	if c.agent != nil {
		notify(c.agent.Lost, rank, cause)
	}
}

// reportLeft notifies the job that a call of this rank fails because rank has left, which aborts
// nothing. If this rank then ends, the job knows that it is not the cause.
func (c *Comm) reportLeft(rank int, cause error) {
	if c.agent != nil {
		notify(c.agent.Left, rank, cause)
	}
}

// Abort ends the job, as MPI_Abort does: an elastic one begins no other epoch. Calls that wait for
// this rank fail with a [*PeerError] that names it and cause. A communicator that no gorun has
// started is closed.
func (c *Comm) Abort(cause error) {
	if c.agent == nil {
		c.Close()
		return
	}
	notify(c.agent.AbortJob, c.inJob(c.Rank()), cause)
}

func notify(send func(ctx context.Context, rank int, cause string) error, rank int, cause error) {
	ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
	defer cancel()
	_ = send(ctx, rank, strings.TrimPrefix(cause.Error(), "ring: "))
}

// verdict waits briefly for the job's own report of the first failure: the rank lost here may
// itself have lost another.
func (c *Comm) verdict(seen *PeerError) error {
	timer := time.NewTimer(verdictTimeout)
	defer timer.Stop()
	select {
	case <-c.life.Done():
		return context.Cause(c.life)
	case <-timer.C:
		return seen
	}
}

// during adds the operation to a PeerError that has none.
func during(op string, err error) error {
	if peer, ok := err.(*PeerError); ok && peer.Op == "" {
		return &PeerError{
			Rank:  peer.Rank,
			Host:  peer.Host,
			Op:    op,
			Cause: peer.Cause,
		}
	}
	return err
}

func (c *membership) host(rank int) string {
	if rank < len(c.hosts) {
		return c.hosts[rank]
	}
	return "an unknown host"
}

// leave closes the fabric.
func (c *Comm) leave() {
	if c.calls.fabric != nil {
		c.calls.fabric.Close(c.failure() == nil && errors.Is(context.Cause(c.life), ErrClosed))
		c.calls.fabric = nil
	}
	c.calls.lane.Close()
}
