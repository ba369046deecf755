package ring_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// errKilled is what a process of these tests dies of: its Comm ends as with the process.
var errKilled = errors.New("killed")

const samples = 240 // that processes work on

// traveller is a process of a World, as a goroutine. What it learns is how often each sample was
// seen by any rank.
type traveller struct {
	*ringtest.Member
	world   *ringtest.World
	counts  []int32
	steps   struct{ Done, Sizes int } // Sizes: the sum over the steps
	sampler *ring.Sampler
	state   ring.State
	epochs  []int         // in which it has trained
	trains  atomic.Bool   // it has the state
	killed  chan struct{} // closed to have it die in its next step
	err     chan error
}

// embark starts a process that goes through so many passes over the samples.
func embark(w *ringtest.World, host string, passes int) *traveller {
	return embarkTo(w, host, func(ctx context.Context, p *traveller, c *ring.Comm) error {
		return p.train(ctx, c, passes)
	})
}

// embarkTo starts a process that trains.
func embarkTo(w *ringtest.World, host string, train func(context.Context, *traveller, *ring.Comm) error) *traveller {
	p := &traveller{
		Member:  w.Add(host),
		world:   w,
		counts:  make([]int32, samples),
		sampler: ring.NewSampler(samples, 7),
		killed:  make(chan struct{}),
		err:     make(chan error, 1),
	}
	p.state = ring.States(ring.SliceState(p.counts), ring.ValueState(&p.steps), p.sampler)
	go func() {
		err := ring.Elastic(ctx, p.state, func(ctx context.Context, c *ring.Comm) error {
			return train(ctx, p, c)
		},
			ring.WithEnviron(ringtest.Lookup(p.Environ())))
		cause := ""
		if err != nil {
			cause = err.Error()
		}
		w.Ended(p.Member, cause)
		p.err <- err
	}()
	return p
}

func (p *traveller) train(ctx context.Context, c *ring.Comm, passes int) error {
	p.epochs = append(p.epochs, c.Epoch())
	p.trains.Store(true)
	for ; p.sampler.Pass() < passes; p.sampler.NextPass() {
		for {
			mine, all := p.sampler.Next(c, 3*c.Size())
			if all == 0 {
				break
			}
			select {
			case <-p.killed:
				return errKilled
			default:
			}
			seen := make([]int32, samples)
			for _, i := range mine {
				seen[i]++
			}
			if err := ring.AllReduce(ctx, c, seen, ring.Sum); err != nil {
				return fmt.Errorf("step %d: %w", p.steps.Done, err)
			}
			for i, n := range seen {
				p.counts[i] += n
			}
			p.steps.Done++
			p.steps.Sizes += c.Size()
			if p.steps.Done%2 == 0 {
				if err := ring.Commit(ctx, c, p.state); err != nil {
					return err
				}
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// want waits for the end of a process, and checks that it has seen each sample once a pass.
func (p *traveller) want(t *testing.T, passes int, err error) {
	t.Helper()
	select {
	case got := <-p.err:
		check.That(t, errors.Is(got, err), "ended with %v, want %v", got, err)
	case <-time.After(60 * time.Second):
		t.Fatal("a process does not end")
	}
	if err != nil {
		return
	}
	for i, n := range p.counts {
		if int(n) != passes {
			t.Errorf("sample %d counted %d times in %d passes", i, n, passes)
			return
		}
	}
}

// Processes that come have the state of the others, who lose nothing and are held up for less than
// a second.
func TestElasticGrows(t *testing.T) {
	w := ringtest.NewWorld(t, 1)
	first := embark(w, "host0", 6)
	must.Until(t, "it trains", func() bool { return w.Joined() == 1 })
	all := []*traveller{first}
	for i := range 3 {
		all = append(all, embark(w, fmt.Sprint("host", 1+i/2), 6))
		must.Until(t, "the new one is in", func() bool { return len(w.Began()) == i+2 && w.Joined() == i+2 })
	}
	for _, p := range all {
		p.want(t, 6, nil)
		check.That(t, p.steps == first.steps, "steps %v, of the first one %v", p.steps, first.steps)
	}
	check.That(t, first.steps.Sizes > first.steps.Done,
		"%d steps by %d ranks in all", first.steps.Done, first.steps.Sizes)
}

// disturb has processes join and die at random, one of which always has the state, and wants those
// that are left to train to the end. It returns them.
func disturb(t *testing.T, w *ringtest.World, random *rand.Rand, passes int,
	start func(host string) *traveller) (left []*traveller) {
	t.Helper()
	left = []*traveller{start("host0"), start("host1")}
	must.Until(t, "the ranks have met", func() bool { return w.Joined() == 2 })
	w.Want(1)
	for range 20 {
		time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond)
		switch i := random.IntN(len(left)); {
		case random.IntN(2) == 0:
			rest := slices.Delete(slices.Clone(left), i, i+1)
			if slices.ContainsFunc(rest, func(p *traveller) bool { return p.trains.Load() }) {
				close(left[i].killed)
				left = rest
			}
		case len(left) < 5:
			left = append(left, start(fmt.Sprint("host", random.IntN(3))))
		default:
			w.Interrupt()
		}
	}
	for _, p := range left {
		p.want(t, passes, nil)
	}
	return left
}

// Whatever joins and leaves, each sample is counted once in each pass, as long as a rank with the
// state remains.
func TestElasticAtRandom(t *testing.T) {
	must.HaveTime(t)
	for seed := range uint64(rounds(3)) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 5))
			w := ringtest.NewWorld(t, 2)
			w.Transport = []string{"auto", "tcp"}[random.IntN(2)]
			const passes = 30
			left := disturb(t, w, random, passes, func(host string) *traveller { return embark(w, host, passes) })
			t.Logf("%d epochs, %d steps", len(w.Began()), left[0].steps.Done)
		})
	}
}

// Fifty epochs in one process, or as many times that as RING_FAULT_ROUNDS says, leave neither
// goroutines nor descriptors, and none takes longer than a second to begin. Every second one ends
// by a failure.
func TestElasticEpochsLeaveNothing(t *testing.T) {
	must.HaveTime(t)
	for _, transport := range []string{"tcp", "auto"} {
		t.Run(transport, func(t *testing.T) {
			w := ringtest.NewWorld(t, 3)
			w.Transport = transport
			n := rounds(50)
			members := []*ringtest.Member{w.Add("host0"), w.Add("host0"), w.Add("host1")}
			left := 0
			files := 0
			goroutines := 0
			for i := range n {
				comms := make([]*ring.Comm, 3)
				begun := time.Now()
				ringtest.All(t, 3, func(rank int) (err error) {
					comms[rank], err = ring.Init(ctx, ring.AfterEpoch(left),
						ring.WithEnviron(ringtest.Lookup(members[rank].Environ())))
					if err == nil {
						err = ring.AllReduce(ctx, comms[rank], make([]float32, 10000), ring.Sum)
					}
					return err
				})
				if took := time.Since(begun); took > 3*time.Second { // the goal is 1 s
					t.Errorf("epoch %d began after %v", i+1, took)
				}
				for rank, want := range [][]int{{0, 2, 0, 2}, {1, 2, 0, 1}, {0, 1, 1, 2}} {
					c := comms[rank]
					got := []int{c.LocalRank(), c.LocalSize(), c.CrossRank(), c.CrossSize()}
					check.That(t, slices.Equal(got, want) && c.Rank() == rank,
						"rank %d as %d is at %v, want %v", rank, c.Rank(), got, want)
				}
				if i%2 == 1 {
					w.Fail("a failure")
				}
				closeAll(comms)
				left = comms[0].Epoch()
				if i == 4 {
					files, goroutines = inUse(t)
				}
			}
			must.Until(t, "what was there is gone", func() bool {
				f, g := inUse(t)
				return f <= files+2 && g <= goroutines+2
			})
		})
	}
}
