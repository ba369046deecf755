package ring_test

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// journal is what ranks have committed: what they had counted, by step.
type journal struct {
	mu    sync.Mutex
	seed  maphash.Seed
	steps map[int]uint64
	wrong error
}

// add records the step that a rank commits.
func (j *journal) add(step int, counts []int32) {
	var h maphash.Hash
	h.SetSeed(j.seed)
	for _, n := range counts {
		h.WriteByte(byte(n))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if was, known := j.steps[step]; known && was != h.Sum64() {
		j.wrong = fmt.Errorf("two ranks have committed different steps %d", step)
	}
	j.steps[step] = h.Sum64()
}

// trainBySteps is train by Step. A process that is killed dies at one of the points of a step.
func (p *traveller) trainBySteps(ctx context.Context, c *ring.Comm, passes int, j *journal, dies string) error {
	p.epochs = append(p.epochs, c.Epoch())
	p.trains.Store(true)
	for p.sampler.Pass() < passes {
		seen := make([]int32, samples)
		all := 0
		point := ""
		select {
		case <-p.killed:
			point = dies
		default:
		}
		err := ring.Step(ctx, c, func() error {
			if point == "compute" {
				return errKilled
			}
			var mine []int
			mine, all = p.sampler.Next(c, 6)
			for _, i := range mine {
				seen[i]++
			}
			return ring.AllReduce(ctx, c, seen, ring.Sum)
		}, func() error {
			if point == "before" {
				return errKilled
			}
			for i, n := range seen {
				p.counts[i] += n
			}
			if all == 0 {
				p.sampler.NextPass()
			}
			p.steps.Done++
			j.add(p.steps.Done, p.counts)
			if point == "after" {
				return errKilled
			}
			return nil
		})
		if err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// Whatever joins and dies at any point of a step, no two ranks commit different steps, and none
// that a rank has committed is lost.
func TestStepIsCommittedByAllOrNone(t *testing.T) {
	must.HaveTime(t)
	for seed := range uint64(rounds(3)) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 6))
			w := ringtest.NewWorld(t, 2)
			j := &journal{seed: maphash.MakeSeed(), steps: map[int]uint64{}}
			const passes = 20
			disturb(t, w, random, passes, func(host string) *traveller {
				point := []string{"compute", "before", "after"}[random.IntN(3)]
				return embarkTo(w, host, func(ctx context.Context, p *traveller, c *ring.Comm) error {
					return p.trainBySteps(ctx, c, passes, j, point)
				})
			})
			check.OK(t, j.wrong)
			steps := passes * (samples/6 + 1)
			check.That(t, len(j.steps) == steps, "%d steps were committed, want %d", len(j.steps), steps)
		})
	}
}
