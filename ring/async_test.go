package ring_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

func TestStartedCallsAreMadeInOrder(t *testing.T) {
	onTransports(t, func(t *testing.T, l layout) {
		const size = 3
		const calls = 20
		const n = 5000
		comms := l.of(size).job(t).Join(t)
		ringtest.All(t, size, func(rank int) error {
			c := comms[rank]
			var handles []ring.Handle
			var vectors [][]float32
			for call := range calls {
				v := vector(n, func(i int) float32 { return at(rank, i+call) })
				h, err := ring.AllReduceAsync(c, v, v, ring.Sum)
				if err != nil {
					return err
				}
				handles = append(handles, h)
				vectors = append(vectors, v)
			}
			// A plain call comes after what was started.
			last := []float32{1}
			if err := ring.AllReduce(ctx, c, last, ring.Sum); err != nil {
				return err
			}
			for call, h := range handles {
				if !h.Done() {
					return errors.New("a started call was overtaken")
				}
				if err := h.Wait(ctx); err != nil {
					return err
				}
				if err := same(vectors[call], vector(n, func(i int) float32 { return sumAt(c, i+call) })); err != nil {
					return err
				}
			}
			return same(last, []float32{size})
		})
	})
}

func TestWaitEndsWithItsContextAndTheCallGoesOn(t *testing.T) {
	comms := ringtest.NewJob(t, 2).Join(t)
	v := []float32{1}
	h, err := ring.AllReduceAsync(comms[0], v, v, ring.Sum)
	must.OK(t, err)
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	err = h.Wait(short)
	must.That(t, errors.Is(err, context.DeadlineExceeded), "Wait returned %v", err)
	must.That(t, !h.Done(), "the call is over without the other rank")
	must.OK(t, ring.AllReduce(ctx, comms[1], []float32{2}, ring.Sum))
	err = h.Wait(ctx)
	must.That(t, err == nil && v[0] == 3, "error %v, result %v", err, v)
	err = h.Wait(ctx)
	check.That(t, err == nil && h.Done(), "waiting again: %v", err)
}

// A call with a time limit that stands behind a started one, which never ends, ends in time too,
// and takes the job with it.
func TestBehindAStartedCallAContextEnds(t *testing.T) {
	job := ringtest.NewJob(t, 2)
	comms := job.Join(t)
	v := []float32{1}
	h, err := ring.AllReduceAsync(comms[0], v, v, ring.Sum) // the other rank does not come
	must.OK(t, err)
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- ring.Barrier(short, comms[0]) }()
	select {
	case err := <-ended:
		check.That(t, errors.Is(err, context.DeadlineExceeded), "the call ended with %v", err)
	case <-time.After(10 * failureDeadline):
		t.Error("the call goes on after its context has ended")
		job.Abort(ringtest.Abort{Rank: 1, Host: ringtest.Host, Cause: "the test is over"})
		<-ended
		return
	}
	check.Error(h.Wait(ctx)).Is(t, context.DeadlineExceeded, "the started call ended with")
	lost := job.Losses()
	check.That(t, len(lost) == 1 && lost[0].Rank == 0, "the job was told %v", lost)
	err = ring.AllReduce(ctx, comms[1], []float32{2}, ring.Sum)
	if err == nil { // its peer's number was on its way
		err = ring.Barrier(ctx, comms[1])
	}
	check.OK(t, wantPeer(err, 0))
}

// Who waits for a call that somebody else has waited for before him waits for no other call, and
// holds nobody up.
func TestWaitingAgainWaitsForNoOtherCall(t *testing.T) {
	comms := ringtest.NewJob(t, 2).Join(t)
	v := []float32{1}
	w := []float32{1}
	h, err := ring.AllReduceAsync(comms[0], v, v, ring.Sum)
	if err == nil {
		err = ring.AllReduce(ctx, comms[1], []float32{1}, ring.Sum)
	}
	if err == nil {
		err = h.Wait(ctx)
	}
	must.OK(t, err)
	next, err := ring.AllReduceAsync(comms[0], w, w, ring.Sum)
	must.OK(t, err)
	time.Sleep(100 * time.Millisecond) // it begins
	again := make(chan error, 1)
	go func() {
		err := h.Wait(ctx)
		next.Done()
		again <- err
	}()
	select {
	case err := <-again:
		check.OK(t, err)
	case <-time.After(10 * failureDeadline):
		t.Error("it waits for the next call")
	}
	check.OK(t, ring.AllReduce(ctx, comms[1], []float32{1}, ring.Sum))
	check.OK(t, next.Wait(ctx))
}

func TestWrongArgumentsAreNotStarted(t *testing.T) {
	comms := ringtest.NewJob(t, 1).Join(t)
	h, err := ring.AllReduceAsync(comms[0], make([]float32, 2), make([]float32, 3), ring.Sum)
	check.That(t, err != nil && h.Done() && h.Wait(ctx) == nil, "error %v, handle done %v", err, h.Done())
}

// A handle that was waited for makes room for the next one.
func TestStartingDoesNotAllocate(t *testing.T) {
	comms := ringtest.NewJob(t, 1).Join(t)
	v := make([]float32, 100)
	got := testing.AllocsPerRun(100, func() {
		h, err := ring.AllReduceAsync(comms[0], v, v, ring.Sum)
		if err != nil || h.Wait(ctx) != nil {
			t.Fatal("a call failed")
		}
	})
	check.That(t, got <= 0, "%v allocations a call", got)
}

// Ranks that make one call by Start, StartHere and Do, early and late, all get its result.
func TestStartHereMixesWithOtherCalls(t *testing.T) {
	onTransports(t, func(t *testing.T, l layout) {
		const size = 3
		const calls = 200
		const n = 700
		comms := l.of(size).job(t).Join(t)
		ringtest.All(t, size, func(rank int) error {
			c := comms[rank]
			dice := rand.New(rand.NewPCG(uint64(rank), 5))
			for call := range calls {
				v := vector(n, func(i int) float32 { return at(rank, i+call) })
				w := collective(ring.KindAllReduce, ring.Float32, ring.Sum, ring.BufferOf(v), ring.BufferOf(v))
				if dice.IntN(8) == 0 {
					time.Sleep(time.Duration(dice.IntN(1000)) * time.Microsecond)
				}
				if err := makeSomehow(ctx, c, w, dice); err != nil {
					return err
				}
				if err := same(v, vector(n, func(i int) float32 { return sumAt(c, i+call) })); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// makeSomehow makes a call by Do, Start or StartHere, and waits for it.
func makeSomehow(ctx context.Context, c *ring.Comm, w ring.Collective, dice *rand.Rand) (err error) {
	var h ring.Handle
	switch dice.IntN(4) {
	case 0:
		err = c.Do(ctx, w)
	case 1:
		h, err = c.Start(w)
	default:
		h, err = c.StartHere(w)
	}
	return errors.Join(err, h.Wait(ctx))
}

// StartHere returns while another rank stays away, its call goes on, and later calls come after it.
func TestStartHereDoesNotWaitForALateRank(t *testing.T) {
	comms := ringtest.NewJob(t, 2).Join(t)
	barrier := ring.Collective{Kind: ring.KindBarrier}
	h := must.Get(comms[0].StartHere(barrier))(t)
	second := must.Get(comms[0].StartHere(barrier))(t)
	must.That(t, !h.Done() && !second.Done(), "a barrier is over without the other rank")
	for range 2 {
		must.OK(t, ring.Barrier(ctx, comms[1]))
	}
	check.OK(t, errors.Join(h.Wait(ctx), second.Wait(ctx)))
}

// messageOf is one to a rank, or from one if to is negative.
func messageOf(to, from int, v []float32) ring.Collective {
	w := ring.Collective{
		Kind: ring.KindMessage,
		Type: ring.Float32,
		Src:  ring.BufferOf(v),
		To:   to,
		From: from,
	}
	if to < 0 {
		w.Dst = w.Src
		w.Src = ring.Buffer{}
	}
	return w
}

// A message that has room, and one that has come, are made in StartHere.
func TestStartHereHandsMessagesOver(t *testing.T) {
	comms := over("shm", 2).job(t).Join(t)
	sent := vector(700, func(i int) float32 { return at(0, i) })
	got := make([]float32, 700)
	out := must.Get(comms[0].StartHere(messageOf(1, -1, sent)))(t)
	in := must.Get(comms[1].StartHere(messageOf(-1, 0, got)))(t)
	check.That(t, out == ring.Handle{} && in == ring.Handle{}, "%+v and %+v were not made at once", out, in)
	check.OK(t, same(got, sent))
}

// StartHere returns while a message has not come, or has no room, and the call goes on.
func TestStartHereDoesNotWaitForALateMessage(t *testing.T) {
	comms := over("shm", 2).job(t).Join(t)
	for _, n := range []int{1, 20000, 100000} { // the last is of several blocks
		v := vector(n, func(i int) float32 { return at(0, i) })
		got := [2][]float32{make([]float32, n), make([]float32, n)}
		late := must.Get(comms[1].StartHere(messageOf(-1, 0, got[0])))(t)
		must.That(t, !late.Done(), "a message has come before it was sent")
		first, err := comms[0].StartHere(messageOf(1, -1, v))
		must.OK(t, errors.Join(err, late.Wait(ctx), first.Wait(ctx)))
		for range 2 {
			h, err := comms[0].StartHere(messageOf(1, -1, v)) // no rank is receiving
			must.OK(t, err)
			defer h.Wait(ctx)
		}
		for _, dst := range got {
			h, err := comms[1].StartHere(messageOf(-1, 0, dst))
			must.OK(t, errors.Join(err, h.Wait(ctx), same(dst, v)))
		}
	}
}

// Calls that differ, or that a rank has left, fail in StartHere as elsewhere.
func TestStartHereFailsAsOthersDo(t *testing.T) {
	here := func(ctx context.Context, c *ring.Comm, w ring.Collective) error {
		h, err := c.StartHere(w)
		if err != nil {
			return err
		}
		return h.Wait(ctx)
	}
	comms := ringtest.NewJob(t, 2).Join(t)
	ringtest.All(t, 2, func(rank int) error {
		b := ring.BufferOf(make([]float32, 3+rank))
		return differ(here(ctx, comms[rank], collective(ring.KindAllReduce, ring.Float32, ring.Sum, b, b)))
	})
	comms = ringtest.NewJob(t, 2).Join(t)
	comms[1].Close()
	barrier := ring.Collective{Kind: ring.KindBarrier}
	check.OK(t, wantPeer(here(ctx, comms[0], barrier), 1))
	comms[0].Close()
	check.Error(here(ctx, comms[0], barrier)).Is(t, ring.ErrClosed, "after Close")
}
