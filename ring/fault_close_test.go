package ring_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// An error ends what is pending, and after it every call of every kind fails at once and in the
// same way. It is row R3 of the fault matrix.
func TestEverythingFailsAfterAnError(t *testing.T) {
	onLayouts(t, func(t *testing.T, l layout) {
		d := l.job(t)
		comms := l.join(t, d)
		ringtest.All(t, l.size, func(rank int) error {
			c := comms[rank]
			first := error(nil)
			begin := time.Now()
			if rank == 0 { // for which the others wait
				d.Abort(ringtest.Abort{Rank: 1, Host: "f1", Cause: "exit code 3"})
			}
			for first == nil {
				first = ring.Barrier(ctx, c)
			}
			if want := "ring: barrier: rank 1 on f1: exit code 3"; first.Error() != want ||
				time.Since(begin) > failureDeadline {
				return fmt.Errorf("after %v: %w, want %q", time.Since(begin), first, want)
			}
			begin = time.Now()
			for _, f := range specs() {
				for _, do := range []caller{synchronously, asynchronously} {
					if err := f.once(c, position{n: 1000}, do); err != first {
						return fmt.Errorf("%s: %v, want %v", f.name, err, first)
					}
				}
			}
			if part, err := ring.Split(ctx, c, 0, 0); err != first || part != nil {
				return fmt.Errorf("split: %v, want %v", err, first)
			}
			if took := time.Since(begin); took > soon {
				return fmt.Errorf("failing took %v", took)
			}
			return wantPeer(first, 1)
		})
	})
}

// inUse are the files and goroutines of this process.
func inUse(t *testing.T) (files, goroutines int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		lab.Skip(t, "no /proc here")
	}
	return len(entries), runtime.NumGoroutine()
}

// resident is the memory of a process, in bytes.
func resident(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		lab.Skip(t, "no /proc here")
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	must.OK(t, err)
	return pages * os.Getpagesize()
}

// Jobs come and go in one process with a queue each, some of them by an error, each with the next
// epoch: a thousand of them with RING_FAULT_ROUNDS=5.
// It is row R3 of the fault matrix.
func TestTwoHundredFailedJobsLeaveNothing(t *testing.T) {
	must.HaveTime(t)
	l := layouts()[2].of(3)
	l.streams = 2
	before := [3]int{}
	now := func() [3]int {
		files, goroutines := inUse(t)
		debug.FreeOSMemory() // what the collector has not looked at yet is no leak
		return [3]int{files, goroutines, resident(t, os.Getpid())}
	}
	for epoch := range rounds(200) {
		d := l.job(t)
		d.Epoch = epoch
		comms := l.join(t, d)
		err := ringtest.Each(l.size, func(rank int) error {
			err := specOf("allreduce").once(comms[rank], position{n: 3000}, synchronously)
			var q *ring.Queue
			if err == nil {
				q, err = ring.NewQueue(ctx, comms[rank], ring.WithStall(0, func(string) {}))
			}
			if err == nil {
				err = sumOf(5)(q)
			}
			if err == nil && epoch%2 == 0 { // else it ends with its Comm
				err = q.Close()
			}
			if err == nil && epoch%10 == 1 {
				if rank == 1 {
					return comms[rank].Close()
				}
				err = wantPeer(ring.Barrier(ctx, comms[rank]), 1)
			}
			return err
		})
		must.OK(t, err, "epoch", epoch)
		closeAll(comms)
		d.Close()
		if epoch == 40 {
			before = now()
		}
	}
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		after := now() // net/http ends its goroutines a little later
		if after[0] <= before[0] && after[1] <= before[1] && after[2] <= before[2]+48<<20 {
			return
		}
		must.That(t, !time.Now().After(deadline), "%v files, goroutines and bytes, were %v", after, before)
	}
}

// Goroutines of each rank call at the same time, the whole and a part of it, plain and
// started. Equal calls may overtake each other.
// It is row R8 of the fault matrix.
func TestConcurrentCallers(t *testing.T) {
	must.HaveTime(t)
	onLayouts(t, func(t *testing.T, l layout) {
		comms := l.join(t, l.job(t))
		parts := split(t, comms, func(*ring.Comm) (color, key int) { return 0, 0 })
		f := specOf("allreduce")
		ringtest.All(t, 8*l.size, func(i int) error {
			c := comms[i%l.size]
			do := synchronously
			if i/l.size%2 == 1 {
				c = parts[i%l.size]
			}
			if i/l.size/2%2 == 1 {
				do = asynchronously
			}
			for range 30 {
				if err := f.once(c, position{n: 777}, do); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// A rank closes its Comm, from two goroutines, while calls of each kind are running, or between two
// of them, as one that makes fewer calls than the others.
// It is rows R5 and R9 of the fault matrix.
func TestCloseDuringEveryCall(t *testing.T) {
	must.HaveTime(t)
	onLayouts(t, func(t *testing.T, l layout) {
		t.Parallel()
		for i, f := range specs() {
			for _, between := range []bool{false, true} {
				if !sampled(i + l.size + len(l.hosts)) {
					continue
				}
				comms := l.join(t, l.job(t))
				closer := i % l.size
				err := ringtest.Each(l.size, func(rank int) error {
					do := []caller{synchronously, asynchronously}[i%2]
					if rank == closer {
						return closeDuring(comms[rank], f, do, between)
					}
					var err error
					for err == nil {
						err = f.once(comms[rank], position{n: 100_000}, do)
					}
					return wantPeer(err, closer)
				})
				check.OK(t, err, f.name, "between calls", between)
				closeAll(comms)
			}
		}
	})
}

// closeDuring makes calls on c, and closes it after three of them, during the next one or before
// it.
func closeDuring(c *ring.Comm, f spec, do caller, between bool) error {
	for range 3 {
		if err := f.once(c, position{n: 100_000}, do); err != nil {
			return err
		}
	}
	closed := make(chan error, 2)
	begin := time.Now()
	for range 2 {
		go func() { closed <- c.Close() }()
	}
	err := error(nil)
	if between {
		err = errors.Join(<-closed, <-closed)
	}
	for err == nil {
		err = f.once(c, position{n: 100_000}, do)
	}
	took := time.Since(begin)
	if !between {
		if err := errors.Join(<-closed, <-closed); err != nil {
			return fmt.Errorf("close: %w", err)
		}
	}
	if !errors.Is(err, ring.ErrClosed) || took > soon {
		return fmt.Errorf("the running call ended after %v with %w", took, err)
	}
	for _, again := range specs() {
		for _, do := range []caller{synchronously, asynchronously} {
			if err := again.once(c, position{n: 10}, do); !errors.Is(err, ring.ErrClosed) {
				return fmt.Errorf("%s after close: %w", again.name, err)
			}
		}
	}
	if _, err := ring.Split(ctx, c, 0, 0); !errors.Is(err, ring.ErrClosed) {
		return fmt.Errorf("split after close: %w", err)
	}
	return c.Close()
}

// Started calls that nobody has waited for end with the Comm, in whatever state they are.
// It is row R9 of the fault matrix.
func TestCloseWithStartedCalls(t *testing.T) {
	onLayouts(t, func(t *testing.T, l layout) {
		comms := l.join(t, l.job(t))
		within(t, soon, func() {
			ringtest.All(t, l.size, func(rank int) error {
				c := comms[rank]
				var handles []ring.Handle
				for range 3 {
					for _, f := range specs() {
						h, err := c.Start(f.fill(position{n: 20_000}.at(c), heap))
						if err != nil {
							return err
						}
						handles = append(handles, h)
					}
				}
				if err := handles[4].Wait(ctx); err != nil && rank == 0 {
					return err
				}
				c.Close()
				last := error(nil)
				for _, h := range handles[5:] {
					last = h.Wait(ctx)
					if !h.Done() {
						return errors.New("a call is not over after it was waited for")
					}
				}
				peer := new(ring.PeerError) // unless all were over by then
				if last != nil && !errors.Is(last, ring.ErrClosed) && !errors.As(last, &peer) {
					return fmt.Errorf("the last call ended with %w", last)
				}
				return nil
			})
		})
	})
}

// The root of a large broadcast is late, so that the others have asked for it, and closes as
// soon as it may: what is not sent by then still arrives.
// It is row R5 of the fault matrix.
func TestLateRankClosesAtOnce(t *testing.T) {
	must.HaveTime(t)
	onLayouts(t, func(t *testing.T, l layout) {
		comms := l.join(t, l.job(t))
		ringtest.All(t, l.size, func(rank int) error {
			data := make([]uint64, 4<<20)
			if rank == 0 {
				time.Sleep(600 * time.Millisecond)
				for i := range data {
					data[i] = uint64(i)
				}
			}
			err := ring.Broadcast(ctx, comms[rank], data, 0)
			comms[rank].Close()
			for i := range data {
				if err == nil && data[i] != uint64(i) {
					err = fmt.Errorf("element %d is %d", i, data[i])
				}
			}
			return err
		})
	})
}
