package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/gorun/gorun/ring"
)

// trainer is one process's part of the training, over all epochs of the job.
type trainer struct {
	cfg          config
	images, test *images
	out          io.Writer

	net      *network
	velocity []float32 // of the parameters, for momentum
	steps    int64
	sampler  *ring.Sampler
	state    ring.State // parameters, velocity, steps and sampler
}

func newTrainer(cfg config, out io.Writer) (*trainer, error) {
	train, err := load(cfg.data, "train")
	if err != nil {
		return nil, err
	}
	test, err := load(cfg.data, "t10k")
	if err != nil {
		return nil, err
	}
	net := newNetwork(train.pixels, 48, rand.New(rand.NewPCG(cfg.seed, 0)))
	t := &trainer{
		cfg:      cfg,
		images:   train,
		test:     test,
		out:      out,
		net:      net,
		velocity: make([]float32, len(net.params)),
		sampler:  ring.NewSampler(len(train.labels), cfg.seed),
	}
	t.state = ring.States(ring.SliceState(net.params), ring.SliceState(t.velocity), ring.ValueState(&t.steps),
		t.sampler)
	return t, nil
}

// train continues from the state in one epoch of the job.
func (t *trainer) train(ctx context.Context, c *ring.Comm) error {
	if c.Rank() == 0 {
		fmt.Fprintf(t.out, "epoch %d: size %d, at step %d, pass %d\n", c.Epoch(), c.Size(), t.steps, t.sampler.Pass())
	}
	for t.sampler.Pass() < t.cfg.passes {
		mine, all := t.sampler.Next(c, t.cfg.batch)
		if all == 0 {
			t.sampler.NextPass()
			continue
		}
		if err := t.step(ctx, c, mine, all); err != nil {
			return err
		}
		time.Sleep(t.cfg.pause)
		if t.steps++; t.steps%int64(t.cfg.commit) == 0 {
			if err := ring.Commit(ctx, c, t.state); err != nil {
				return err
			}
		}
	}
	accuracy, err := t.evaluate(ctx, c)
	if err == nil {
		_, err = fmt.Fprintf(t.out, "rank %d of %d: accuracy %.2f %% after %d steps\n", c.Rank(), c.Size(),
			100*accuracy, t.steps)
	}
	return err
}

// step takes one step down the mean gradient of all ranks' images.
func (t *trainer) step(ctx context.Context, c *ring.Comm, mine []int, all int) error {
	clear(t.net.grads)
	for _, i := range mine {
		t.net.learn(t.images.image(i), t.images.labels[i], 1/float32(all))
	}
	if err := ring.AllReduce(ctx, c, t.net.grads, ring.Sum); err != nil {
		return err
	}
	for i, g := range t.net.grads {
		t.velocity[i] = 0.9*t.velocity[i] + g
		t.net.params[i] -= float32(t.cfg.rate) * t.velocity[i]
	}
	return nil
}

// evaluate returns the share of test images that are classified correctly. Each rank tests its
// part.
func (t *trainer) evaluate(ctx context.Context, c *ring.Comm) (float64, error) {
	right := []float64{0}
	n := len(t.test.labels)
	for i := n * c.Rank() / c.Size(); i < n*(c.Rank()+1)/c.Size(); i++ {
		if t.net.guess(t.test.image(i)) == int(t.test.labels[i]) {
			right[0]++
		}
	}
	err := ring.AllReduce(ctx, c, right, ring.Sum)
	return right[0] / float64(n), err
}
