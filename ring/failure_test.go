package ring_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// failureDeadline bounds how late a rank may know that another has failed: before the silence of
// its link would say so. That it knows within a second is a row of internal/test/faults, which has
// the machine for itself.
const failureDeadline = 5 * time.Second

// wantPeer checks that err is a PeerError about rank.
func wantPeer(err error, rank int) error {
	var peer *ring.PeerError
	if !errors.As(err, &peer) {
		return fmt.Errorf("error is %v, want a PeerError", err)
	}
	if peer.Rank != rank || peer.Op == "" || peer.Cause == nil {
		return fmt.Errorf("error is %v, want one about rank %d", err, rank)
	}
	return nil
}

// within runs f and checks that it takes no longer than limit.
func within(t *testing.T, limit time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	took := time.Since(start)
	check.That(t, took <= limit, "took %v, want at most %v", took, limit)
}

func TestLostAgentIsAnAbort(t *testing.T) {
	onTransports(t, func(t *testing.T, l layout) {
		job := l.of(2).job(t)
		comms := job.Join(t)
		within(t, failureDeadline, func() {
			job.Close()
			err := ring.Barrier(ctx, comms[0]) // rank 1 does not come
			check.OK(t, wantPeer(err, -1))
		})
	})
}

func TestCancelledCallBreaksTheJob(t *testing.T) {
	onTransports(t, func(t *testing.T, l layout) {
		job := l.of(3).job(t)
		comms := job.Join(t)
		input := []float32{1, 2, 3}
		within(t, failureDeadline, func() {
			err := ringtest.Each(2, func(rank int) error { // rank 2 does not come
				if rank == 1 {
					return wantPeer(ring.AllGather(ctx, comms[1], make([]float32, 9), input), 0)
				}
				ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
				defer cancel()
				err := ring.AllGather(ctx, comms[0], make([]float32, 9), []float32{4, 5, 6})
				if !errors.Is(err, context.DeadlineExceeded) {
					return fmt.Errorf("error is %v, want the context's", err)
				}
				if again := ring.Barrier(context.Background(), comms[0]); again != err {
					return fmt.Errorf("later call: %v, want %v", again, err)
				}
				return nil
			})
			check.OK(t, err)
		})
		check.That(t, fmt.Sprint(input) == "[1 2 3]", "input of the failed call has become %v", input)
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		alone := must.Get(ring.Init(ctx, ring.WithEnviron(ringtest.Lookup(nil))))(t)
		check.Error(ring.Barrier(cancelled, alone)).Is(t, context.Canceled, "call with a cancelled context")
	})
}

func TestInitErrors(t *testing.T) {
	job := ringtest.NewJob(t, 2)
	tests := map[string]struct {
		change string
		want   string
	}{
		"token":    {"GORUN_TOKEN=wrong", "agent does not know this rank's token"},
		"size":     {"GORUN_SIZE=3", "agent knows rank 0 of 2"},
		"epoch":    {"GORUN_EPOCH=7", "environment says rank 0 of 2 of job " + job.ID + " epoch 7"},
		"number":   {"GORUN_RANK=x", "not a number"},
		"address":  {"GORUN_ADDR=f1.example", "GORUN_ADDR"},
		"wildcard": {"GORUN_ADDR=0.0.0.0", "one address"},
	}
	for name, test := range tests {
		environ := append([]string{test.change}, job.Environ(0)...)
		if addr, found := strings.CutPrefix(test.change, "GORUN_ADDR="); found {
			environ = append([]string{"GORUN_ADDRS=" + addr}, environ...)
		}
		c, err := ring.Init(ctx, ring.WithEnviron(ringtest.Lookup(environ)))
		check.That(t, err != nil && strings.Contains(err.Error(), test.want),
			"%s: error is %v, want %q", name, err, test.want)
		check.That(t, c == nil, "%s: a Comm and an error", name)
	}
}

func TestInitEndsWithTheJobAndWithItsContext(t *testing.T) {
	job := ringtest.NewJob(t, 2)
	failed := make(chan error, 1)
	go func() { // rank 1 does not come
		_, err := ring.Init(ctx, ring.WithEnviron(ringtest.Lookup(job.Environ(0))))
		failed <- err
	}()
	job.Abort(ringtest.Abort{Rank: 1, Host: "f2", Cause: "exit code 3"})
	within(t, failureDeadline, func() { check.OK(t, wantPeer(<-failed, 1)) })
	other := ringtest.NewJob(t, 2)
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err := ring.Init(short, ring.WithEnviron(ringtest.Lookup(other.Environ(0))))
	check.That(t, errors.Is(err, context.DeadlineExceeded), "error is %v, want the context's", err)
}

func TestIPv6(t *testing.T) {
	job := ringtest.NewJob(t, 3)
	err := ringtest.Each(3, func(rank int) error {
		c, err := ring.Init(ctx, ring.WithEnviron(ringtest.Lookup(job.Rank(rank, "::1").Environ())))
		if err != nil {
			return err
		}
		defer c.Close()
		buf := []float64{float64(rank)}
		if err := ring.AllReduce(ctx, c, buf, ring.Sum); err != nil {
			return err
		}
		if buf[0] != 3 {
			return fmt.Errorf("sum is %v, want 3", buf[0])
		}
		return ring.Barrier(ctx, c)
	})
	if err != nil {
		if strings.Contains(err.Error(), "cannot assign requested address") {
			lab.Skip(t, "no IPv6 here")
		}
		t.Error(err)
	}
}

// A rank may be late by more than the time after which a dead network is given up.
func TestLateRankIsWaitedFor(t *testing.T) {
	must.HaveTime(t)
	t.Parallel()
	comms := ringtest.NewJob(t, 3).Join(t)
	ringtest.All(t, 3, func(rank int) error {
		if rank == 2 {
			time.Sleep(6 * time.Second) // the time itself is under test
		}
		return ring.AllReduce(ctx, comms[rank], make([]float32, 8<<20), ring.Sum)
	})
}

// Ranks may leave a private part while others wait for them: the job only hears of whom the others
// missed.
func TestPrivatePartMissesARank(t *testing.T) {
	onTransports(t, func(t *testing.T, l layout) {
		job := l.of(3).job(t)
		comms := job.Join(t)
		parts := split(t, comms, func(*ring.Comm) (color, key int) { return 0, 0 })
		ringtest.All(t, 3, func(rank int) error {
			parts[rank].Private()
			if err := ring.Barrier(ctx, parts[rank]); err != nil {
				return err
			}
			if rank == 1 {
				return parts[1].Close()
			}
			var peer *ring.PeerError // of rank 1, or of the one that has left because of it
			if err := ring.Barrier(ctx, parts[rank]); !errors.As(err, &peer) {
				return fmt.Errorf("%v, want a PeerError", err)
			}
			return nil
		})
		lost := job.Losses()
		check.That(t, len(lost) == 0, "lost: %v", lost)
		left := job.Leaves()
		check.That(t, len(left) == 2 && left[0].Rank == 1, "left: %v", left)
		ringtest.All(t, 3, func(rank int) error { return ring.Barrier(ctx, comms[rank]) })
	})
}

// A rank ends the job. The others learn which it was, and why.
func TestAbort(t *testing.T) {
	onTransports(t, func(t *testing.T, l layout) {
		job := l.of(3).job(t)
		comms := job.Join(t)
		cause := errors.New("its data is not what the others have")
		ringtest.All(t, 3, func(rank int) error {
			if rank == 1 {
				comms[1].Abort(cause)
				return nil
			}
			err := ring.Barrier(ctx, comms[rank])
			if err == nil || !strings.Contains(err.Error(), cause.Error()) {
				return fmt.Errorf("%v, want %q", err, cause)
			}
			return wantPeer(err, 1)
		})
	})
}
