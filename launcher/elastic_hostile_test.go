package launcher

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
)

// besides runs an elastic job for a minute on a host whose rank works and on one with other agents.
// The job starts with the good host's rank.
func besides(t *testing.T, other *fake.Machine) Result {
	t.Helper()
	var began time.Time
	good := serving(func(a *fake.Agent) error { return a.Live(began.Add(time.Minute)) })
	other.Disk = fake.NewDisk(map[string]string{"/opt/gorun": "build one"})
	settings := elasticOf(1, hostfile.Host{Name: "h0", Slots: 1}, hostfile.Host{Name: "h1", Slots: 1})
	r, err := elasticJobOn(t, good, settings, func(o *Options) {
		began = time.Now()
		o.Dial = func(_ context.Context, h hostfile.Host) (Host, error) {
			if h.Name == "h0" {
				return good, nil
			}
			return other, nil
		}
	})
	check.OK(t, err)
	return r
}

// A host makes the job start a process there again and again. It says that each has failed because
// of others, which are well. It is given few, and the launcher keeps little of each.
func TestProcessesThatFailWithoutEnd(t *testing.T) {
	large := strings.Repeat("x", 4<<20)
	for name, end := range map[string]wire.Exit{
		"fails":       {Code: 1},
		"is a victim": {Code: 1, Aborted: true},
	} {
		t.Run(name, func(t *testing.T) {
			before := heapSize()
			var kept int64
			started := 0
			r := besides(t, serving(func(a *fake.Agent) error {
				if started++; started > 40 {
					return a.Live(time.Now().Add(time.Second))
				}
				kept = heapSize() - before
				e := end
				e.Rank = a.Job.Ranks[0].Rank
				return errors.Join(a.Out.SendMessage(wire.TypeNote, wire.Note{By: e.Rank, Text: large}), a.Exit(e),
					a.Out.Send(wire.TypeDone, 0, nil))
			}))
			check.That(t, r.Code() == 0 && started > 1 && started < 20, "%d processes, %+v", started, r)
			check.That(t, kept < 16<<20, "the launcher keeps %d MiB of %d processes", kept>>20, started)
		})
	}
}

// Requests of a process end with it, however long they were to wait.
func TestRequestsEndWithTheirProcess(t *testing.T) {
	const requests = 1000
	most := 0
	r := besides(t, serving(func(a *fake.Agent) error {
		time.Sleep(time.Second) // those of the process before end
		most = max(most, runtime.NumGoroutine())
		rank := a.Job.Ranks[0].Rank
		for i := range requests {
			if err := a.Out.SendMessage(wire.TypeGet,
				wire.Get{ID: uint64(i), Key: fmt.Sprint(i), Wait: math.MaxInt64}); err != nil {
				return err
			}
		}
		return errors.Join(a.Exit(wire.Exit{Rank: rank, Code: 1}), a.Out.Send(wire.TypeDone, 0, nil))
	}))
	check.That(t, r.Code() == 0 && most < requests, "%d goroutines as a process starts, %+v", most, r)
}

// A host of an elastic job that breaks the rules of fences is lost, as in other jobs: it would end
// one epoch after the other, and no failure would count.
func TestFencesOfAHostileProcess(t *testing.T) {
	for name, tt := range map[string]struct {
		next func(i int) string
		want string
	}{
		"comes twice":      {func(int) string { return "f" }, "came twice"},
		"opens all fences": {func(i int) string { return fmt.Sprint(i) }, "h1 has opened 512 fences already"},
	} {
		t.Run(name, func(t *testing.T) {
			r := besides(t, serving(func(a *fake.Agent) error {
				e, err := a.JoinEpoch()
				for i := 0; i < 600 && err == nil; i++ {
					f := wire.Fence{Epoch: e.Number, Name: tt.next(i), Values: map[int][]byte{e.Rank: nil}}
					err = a.Out.SendMessage(wire.TypeFence, f)
				}
				return errors.Join(err, a.UntilEOF())
			}))
			lost := slices.ContainsFunc(r.Lost, func(e HostError) bool {
				return e.Host == "h1" && strings.Contains(e.Err.Error(), tt.want)
			})
			check.That(t, r.Code() == 0 && lost, "%+v", r)
		})
	}
}

// A process says nothing in the name of another one's rank. What it says of an epoch in which it is
// not is no fault: it may not know yet that another has begun. Nothing of that is kept.
func TestProcessesPutWhatTheirRanksSay(t *testing.T) {
	for name, tt := range map[string]struct {
		key  func(e wire.Epoch) string
		lost string
	}{
		"its own":       {func(e wire.Epoch) string { return kv.RankKey(e.Number, e.Rank, "a") }, ""},
		"another's":     {func(e wire.Epoch) string { return kv.RankKey(e.Number, 0, "a") }, "a rank of another host"},
		"of the past":   {func(e wire.Epoch) string { return kv.RankKey(e.Number-1, 0, "a") }, ""},
		"of the future": {func(e wire.Epoch) string { return kv.RankKey(e.Number+1, 0, "a") }, ""},
		"of no epoch":   {func(wire.Epoch) string { return kv.RankKey(0, 1, "a") }, ""},
		"a program's":   {func(wire.Epoch) string { return "rank/0/a" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := besides(t, serving(func(a *fake.Agent) error {
				e, err := a.JoinEpoch()
				must.That(t, err == nil && e.Rank == 1, "%+v, %v", e, err)
				err = a.Out.SendMessage(wire.TypePut, wire.Put{Key: tt.key(e)})
				err = errors.Join(err, a.Exit(wire.Exit{Rank: a.Job.Ranks[0].Rank}))
				return errors.Join(err, a.Out.Send(wire.TypeDone, 0, nil))
			}))
			check.That(t, r.Code() == 0 && (len(r.Lost) > 0) == (tt.lost != ""), "%+v", r)
			for _, lost := range r.Lost {
				check.Error(lost.Err).Says(t, tt.lost, lost.Host)
			}
		})
	}
}

// A rank that finishes while another one waits for it in a fence ends the epoch, by its own name.
func TestRankFinishesBeforeAFence(t *testing.T) {
	waits := make(chan struct{})
	var abort wire.Abort
	machine := serving(func(a *fake.Agent) error {
		e, err := a.JoinEpoch()
		if err != nil {
			return err
		}
		if e.Rank == 1 {
			<-waits
			time.Sleep(time.Second) // until the fence has come
			return errors.Join(a.Exit(wire.Exit{Rank: 1}), a.Out.Send(wire.TypeDone, 0, nil), a.UntilEOF())
		}
		fence := wire.Fence{Epoch: e.Number, Name: "f", Values: map[int][]byte{0: nil}}
		err = a.Out.SendMessage(wire.TypeFence, fence)
		close(waits)
		if f, wrong := a.Expect(wire.TypeAbort); wrong != nil {
			err = wrong
		} else {
			err = errors.Join(err, f.Decode(&abort))
		}
		return errors.Join(err, a.Exit(wire.Exit{Code: 1}), a.Out.Send(wire.TypeDone, 0, nil), a.UntilEOF())
	})
	settings := elasticOf(2, hostfile.Host{Name: "h0", Slots: 1}, hostfile.Host{Name: "h1", Slots: 1})
	r, err := elasticJobOn(t, machine, settings, func(*Options) {})
	check.OK(t, err)
	check.That(t, r.Code() == 1 && abort.Rank == 1 && abort.Host == "h1", "%+v, the job ends with %+v", abort, r)
}
