package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"github.com/gorun/gorun/ring"
)

// trainer is one rank's part of the training.
type trainer struct {
	comm        *ring.Comm
	cfg         config
	train, test *dataset
	out         io.Writer

	net      *network
	velocity []float32 // momentum of each parameter
	global   int       // images that all ranks together take in a step
}

// result is the network's quality on the test images. It is the same on all ranks.
type result struct{ loss, accuracy float64 }

func newTrainer(comm *ring.Comm, cfg config, train, test *dataset, out io.Writer) *trainer {
	net := newNetwork(train.rows, train.cols, cfg.filters, cfg.hidden)
	global := cfg.globalBatch
	if global == 0 {
		global = cfg.batch * comm.Size()
	}
	return &trainer{
		comm:     comm,
		cfg:      cfg,
		train:    train,
		test:     test,
		out:      out,
		net:      net,
		velocity: make([]float32, len(net.params)),
		global:   min(global, train.len()),
	}
}

// fit trains for all epochs. Rank 0 prints a line after each.
func (t *trainer) fit(ctx context.Context) (r result, err error) {
	if t.comm.Rank() == 0 {
		t.net.randomize(rand.New(rand.NewPCG(t.cfg.seed, 0)))
		fmt.Fprintf(t.out, "%d training images of %d×%d, %d parameters, %d ranks, %d images a step\n",
			t.train.len(), t.train.rows, t.train.cols, len(t.net.params), t.comm.Size(), t.global)
	}
	// All ranks start from the same parameters.
	if err := ring.Broadcast(ctx, t.comm, t.net.params, 0); err != nil {
		return r, err
	}
	for epoch := range t.cfg.epochs {
		start := time.Now()
		loss, err := t.epoch(ctx, epoch)
		if err != nil {
			return r, err
		}
		speed := float64(t.train.len()) / time.Since(start).Seconds()
		if r, err = t.evaluate(ctx); err != nil {
			return r, err
		}
		if t.comm.Rank() == 0 {
			fmt.Fprintf(t.out, "epoch %d: loss %.4f, test loss %.4f, accuracy %.2f %%, %.0f images/s a rank, %.0f in "+
				"all\n",
				epoch+1, loss, r.loss, 100*r.accuracy, speed/float64(t.comm.Size()), speed)
		}
	}
	return r, nil
}

// epoch goes once through all training images, in an order that all ranks know.
// It returns their mean loss.
func (t *trainer) epoch(ctx context.Context, epoch int) (float64, error) {
	order := rand.New(rand.NewPCG(t.cfg.seed, uint64(epoch)+1)).Perm(t.train.len())
	steps := (len(order) + t.global - 1) / t.global
	sum := []float64{0}
	for step := range steps {
		batch := order[step*t.global : min((step+1)*t.global, len(order))]
		sum[0] += t.gradient(batch)
		// The gradients of the ranks add up to the mean over the batch.
		if err := ring.AllReduce(ctx, t.comm, t.net.grads, ring.Sum); err != nil {
			return 0, err
		}
		t.update(t.rate(float64(epoch) + float64(step)/float64(steps)))
	}
	err := ring.AllReduce(ctx, t.comm, sum, ring.Sum)
	return sum[0] / float64(len(order)), err
}

// gradient computes this rank's part of the mean gradient over batch, and returns
// the sum of the losses of its images.
func (t *trainer) gradient(batch []int) (loss float64) {
	clear(t.net.grads)
	lo, hi := shard(len(batch), t.comm.Size(), t.comm.Rank())
	for _, i := range batch[lo:hi] {
		t.train.image(i, t.net.filters.in)
		l, _ := t.net.predict(t.train.labels[i])
		t.net.learn(t.train.labels[i], 1/float32(len(batch)))
		loss += l
	}
	return loss
}

// update takes one step down the gradient, with momentum.
func (t *trainer) update(rate float32) {
	keep := float32(t.cfg.momentum)
	for i, g := range t.net.grads {
		t.velocity[i] = keep*t.velocity[i] + g
		t.net.params[i] -= rate * t.velocity[i]
	}
}

// rate is the learning rate at a time in epochs. It is in proportion to the images
// in a step: a batch that is four times as large makes a quarter of the steps. As that
// is too fast at first, it grows from the rate for one rank during the warm-up (Goyal
// et al., "Accurate, large minibatch SGD", 2017). Then it falls to zero in a half cosine.
func (t *trainer) rate(time float64) float32 {
	full := t.cfg.lr * float64(t.global) / float64(t.cfg.batch)
	if time < t.cfg.warmup {
		return float32(t.cfg.lr + (full-t.cfg.lr)*time/t.cfg.warmup)
	}
	rest := (time - t.cfg.warmup) / (float64(t.cfg.epochs) - t.cfg.warmup)
	return float32(full * (1 + math.Cos(math.Pi*rest)) / 2)
}

// evaluate measures the network on the test images, each rank on its share.
func (t *trainer) evaluate(ctx context.Context) (result, error) {
	lo, hi := shard(t.test.len(), t.comm.Size(), t.comm.Rank())
	sums := []float64{0, 0} // loss, right answers
	for i := lo; i < hi; i++ {
		t.test.image(i, t.net.filters.in)
		loss, right := t.net.predict(t.test.labels[i])
		sums[0] += loss
		if right {
			sums[1]++
		}
	}
	err := ring.AllReduce(ctx, t.comm, sums, ring.Sum)
	n := float64(t.test.len())
	return result{loss: sums[0] / n, accuracy: sums[1] / n}, err
}

// shard returns which of n things are a rank's: [lo, hi). The shares differ by at most one.
func shard(n, size, rank int) (lo, hi int) { return n * rank / size, n * (rank + 1) / size }
