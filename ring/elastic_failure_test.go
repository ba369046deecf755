package ring_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// answer fails a test whose goroutine does not end.
func answer(t *testing.T, limit time.Duration, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		t.Fatalf("not over in %v", limit)
		return nil
	}
}

func environ(m *ringtest.Member) ring.Option {
	return ring.WithEnviron(ringtest.Lookup(m.Environ()))
}

// A program without elastic support joins the first epoch that its ranks can join.
func TestElasticInit(t *testing.T) {
	w := ringtest.NewWorld(t, 2)
	late := w.Add("host1")
	m := w.Add("host0")
	begun := make(chan error, 1)
	go func() {
		c, err := ring.Init(ctx, environ(m))
		if err == nil {
			defer c.Close()
			if c.Epoch() != 2 || c.Rank() != 0 || c.Size() != 1 || c.LocalSize() != 1 || c.CrossSize() != 1 {
				err = fmt.Errorf("rank %d of %d in epoch %d", c.Rank(), c.Size(), c.Epoch())
			}
		}
		begun <- err
	}()
	parked, err := late.Park(ctx, 0) // it is let in, and dies before it has met anyone
	must.That(t, err == nil && parked.Epoch == 1 && parked.Size == 2, "let into %+v, %v", parked, err)
	w.Want(1)
	w.Ended(late, "killed")
	check.OK(t, answer(t, 10*time.Second, begun))
}

// What is no failure of another rank ends Elastic, and so does the end of the job.
func TestElasticErrors(t *testing.T) {
	mine := errors.New("mine")
	state := func() ring.State { return ring.SliceState([]float32{1}) }
	once := func(err error) (calls int, got error) {
		w := ringtest.NewWorld(t, 1)
		got = ring.Elastic(ctx, state(), func(context.Context, *ring.Comm) error {
			calls++
			return err
		}, environ(w.Add("host")))
		return calls, got
	}
	for _, err := range []error{mine, &ring.MismatchError{}, nil} {
		calls, got := once(err)
		check.That(t, calls == 1 && got == err, "%v: %d calls, %v", err, calls, got)
	}
	check.Error(ring.Elastic(ctx, ring.ValueState(new(chan int)), nil)).Says(t, "chan int",
		"a state that cannot be saved")
	// Not elastic: once, whatever the error.
	calls := 0
	peer := &ring.PeerError{Rank: 3, Cause: mine}
	err := ring.Elastic(ctx, state(), func(ctx context.Context, c *ring.Comm) error {
		calls++
		if err := ring.Commit(ctx, c, state()); err != nil || c.Epoch() != 0 {
			t.Errorf("commit of a world of one: %v", err)
		}
		return peer
	}, ring.WithEnviron(ringtest.Lookup(nil)))
	check.That(t, calls == 1 && err == peer, "alone: %d calls, %v", calls, err)
	// The job ends while a process waits for an epoch.
	w := ringtest.NewWorld(t, 1)
	m := w.Add("host")
	done := make(chan error, 1)
	go func() {
		done <- ring.Elastic(ctx, state(), func(ctx context.Context, c *ring.Comm) error {
			w.Want(2)
			w.Interrupt()
			for {
				if err := c.CheckHosts(ctx); err != nil {
					go w.End("too few slots")
					return err
				}
			}
		}, environ(m))
	}()
	err = answer(t, 10*time.Second, done)
	check.That(t, errors.As(err, new(*ring.PeerError)) && strings.Contains(err.Error(), "too few slots"),
		"the job's end: %v", err)
	// So does that of the context.
	bounded, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	check.Error(ring.Elastic(bounded, state(), nil, environ(ringtest.NewWorld(t, 2).Add("host")))).Is(t,
		context.DeadlineExceeded, "the context's end")
}

// slowState is a State whose Sync can be stopped in the middle.
type slowState struct {
	ring.State
	sync func(ctx context.Context, c *ring.Comm) error
}

func (s slowState) Sync(ctx context.Context, c *ring.Comm, root int) error {
	if err := s.sync(ctx, c); err != nil {
		return err
	}
	return s.State.Sync(ctx, c, root)
}

// Who came when others had the state, and was left before it got any, does not begin anew.
func TestElasticStateIsLost(t *testing.T) {
	w := ringtest.NewWorld(t, 1)
	old := w.Add("host0")
	fresh := w.Add("host1")
	w.Want(1)
	w.Ended(fresh, "") // it comes later
	olds := make(chan error, 1)
	news := make(chan error, 1)
	x := []float32{5}
	go func() {
		epochs := 0
		state := slowState{ring.SliceState(x), func(context.Context, *ring.Comm) error {
			if epochs++; epochs == 2 {
				return errKilled
			}
			return nil
		}}
		err := ring.Elastic(ctx, state, func(ctx context.Context, c *ring.Comm) error {
			for {
				if err := c.CheckHosts(ctx); err != nil {
					return err
				}
			}
		}, environ(old))
		w.Ended(old, "killed")
		olds <- err
	}()
	must.Until(t, "the first one trains", func() bool { return w.Joined() == 1 })
	fresh = w.Add("host1")
	go func() {
		news <- ring.Elastic(ctx, ring.SliceState([]float32{0}), func(context.Context, *ring.Comm) error {
			return nil
		}, environ(fresh))
	}()
	check.Error(answer(t, 10*time.Second, olds)).Is(t, errKilled)
	check.Error(answer(t, 10*time.Second, news)).Is(t, ring.ErrStateLost, "it went on with a state of its own")
}

// The same of one that was left before it could hear that others had the state.
func TestElasticLatecomerBeginsNothing(t *testing.T) {
	w := ringtest.NewWorld(t, 1)
	old := w.Add("host0")
	first := must.Get(ring.Init(ctx, environ(old)))(t)
	fresh := w.Add("host1")
	news := make(chan error, 1)
	go func() {
		news <- ring.Elastic(ctx, ring.SliceState([]float32{0}), func(context.Context, *ring.Comm) error {
			return nil
		}, environ(fresh))
	}()
	must.Until(t, "the first one is called", first.HostsUpdated)
	first.Close()
	second := must.Get(ring.Init(ctx, environ(old), ring.AfterEpoch(1)))(t)
	second.Close()
	w.Ended(old, "killed")
	check.Error(answer(t, 10*time.Second, news)).Is(t, ring.ErrStateLost, "it went on with a state of its own")
}

// States come back as they were saved, zeros and all.
func TestStates(t *testing.T) {
	type value struct {
		N    int
		List []string
		Map  map[string]float64
	}
	x := []float64{1, 2}
	v := value{3, []string{"a"}, map[string]float64{"b": 4}}
	sampler := ring.NewSampler(10, 1)
	s := ring.States(ring.SliceState(x), ring.ValueState(&v), sampler)
	check.Error(ring.ValueState(&v).Restore()).Any(t, "a state that was never saved came back")
	must.OK(t, s.Save())
	x[0] = 7
	v.N = 8
	v.List = nil
	v.Map["b"] = 9
	v.Map["c"] = 10
	sampler.NextPass()
	must.OK(t, s.Restore())
	check.That(t, fmt.Sprint(x, v, sampler.Pass()) == "[1 2] {3 [a] map[b:4]} 0",
		"restored to %v, %v, %d", x, v, sampler.Pass())
	v = value{}
	must.OK(t, s.Save())
	v.N = 1
	err := s.Restore()
	check.That(t, err == nil && v.N == 0, "zeros came back as %v, %v", v, err)
}

// The samples and seeds of all ranks are the same, or Sync says so.
func TestSamplersDiffer(t *testing.T) {
	d := ringtest.NewJob(t, 2)
	comms := d.Join(t)
	for _, other := range []*ring.Sampler{ring.NewSampler(11, 1), ring.NewSampler(10, 2)} {
		err := ringtest.Each(2, func(rank int) error {
			s := ring.NewSampler(10, 1)
			if rank == 1 {
				s = other
			}
			return s.Sync(ctx, comms[rank], 0)
		})
		check.That(t, err != nil && strings.Contains(err.Error(), "give all ranks the same"), "error is %v", err)
	}
}

// trainElastic is the role of a process that trains for good, or in epoch 2 for 10 steps.
func trainElastic(string) error {
	x := make([]float32, 1<<20)
	return ring.Elastic(ctx, ring.SliceState(x[:1]), func(ctx context.Context, c *ring.Comm) error {
		fmt.Println("epoch", c.Epoch(), "size", c.Size())
		for i := 0; c.Epoch() == 1 || i < 10; i++ {
			if err := ring.AllReduce(ctx, c, x[1:], ring.Sum); err != nil {
				return err
			}
		}
		return nil
	})
}

// A process stops in the middle of a call, and its epoch is aborted: the others do not wait for it.
func TestElasticStoppedProcess(t *testing.T) {
	for _, transport := range []string{"tcp", "auto"} {
		t.Run(transport, func(t *testing.T) {
			w := ringtest.NewWorld(t, 3)
			w.Transport = transport
			var members []*ringtest.Member
			var ranks []*lab.Program
			for i := range 3 {
				members = append(members, w.Add("host"+strconv.Itoa(i/2)))
				ranks = append(ranks, start(t, members[i].Environ(), "elastic "))
			}
			for _, p := range ranks {
				line, err := p.Line()
				must.That(t, line == "epoch 1 size 3", "a rank said %q, %v", line, err)
			}
			time.Sleep(50 * time.Millisecond)
			must.OK(t, ranks[1].Process.Signal(syscall.SIGSTOP))
			time.Sleep(50 * time.Millisecond)
			w.Want(2)
			over := time.Now()
			w.Ended(members[1], "not seen for 12 s")
			for _, i := range []int{0, 2} {
				line, err := ranks[i].Line()
				check.That(t, line == "epoch 2 size 2", "process %d said %q, %v", i, line, err)
			}
			if took := time.Since(over); took > 4*time.Second { // the goal is 1 s
				t.Errorf("the next epoch began after %v", took)
			}
			for _, i := range []int{0, 2} {
				line, err := ranks[i].Line()
				check.Equal(t, err, io.EOF, "process", i, "said", line)
			}
		})
	}
}
