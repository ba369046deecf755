package launcher

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher/session"
)

// Bounds on what a host can make the launcher keep with frames of one type while a job runs.
const (
	refused  = "refused"           // one frame is a violation
	credited = "costs credit"      // a violation beyond the credit
	counted  = "a number of times" // a violation beyond that number
	passing  = "nothing is kept"
)

// frameBounds has a row for each type of frame. A new type needs a bound before it needs a row.
func frameBounds() map[wire.Type]string {
	bounds := map[wire.Type]string{
		wire.TypeHeartbeat: passing,
		wire.TypeOutput:    credited,
		wire.TypeCredit:    counted, // credit that was never taken
		wire.TypeExit:      counted, // one for each rank
		wire.TypeLost:      passing, // the first one aborts the job
		wire.TypePut:       passing, // the store has a limit of its own
		wire.TypeGet:       counted,
		wire.TypeFence:     counted, // one value of each rank
		wire.TypeDone:      counted,
		wire.TypeSuspended: passing,
		wire.TypeFailing:   passing, // the first one ends the host
		wire.TypeNote:      passing, // the first hundred are shown
		wire.TypeTell:      counted, // see TestHostileTells
		wire.TypeEntered:   passing, // of the host's ranks
		wire.TypeSpawn:     passing, // more than a number are refused
	}
	for _, t := range []wire.Type{
		// the launcher's
		wire.TypeHello, wire.TypeJob, wire.TypeStart, wire.TypeStdin, wire.TypeStop, wire.TypeSignal, wire.TypeAbort,
		wire.TypeValue, wire.TypeFenced, wire.TypeSuspend, wire.TypeResume, wire.TypeEpoch, wire.TypeInterrupt,
		wire.TypeProgram, wire.TypeListGPUs, wire.TypeFolder, wire.TypeAsk, wire.TypeCount, wire.TypeOffer,
		wire.TypePeers, wire.TypePiece, wire.TypeEnough, wire.TypeMPI, wire.TypeWorld, wire.TypeFetch,
		// those before the job starts, which each answer one frame of the launcher
		wire.TypeReady, wire.TypeRefuse, wire.TypeGPUs, wire.TypeWaiting, wire.TypeWant, wire.TypeStaged,
		wire.TypeUnits, wire.TypeOffered, wire.TypePassed, wire.TypeNeed,
		// those of elastic jobs
		wire.TypePark, wire.TypeJoined,
	} {
		bounds[t] = refused
	}
	return bounds
}

// hostileFrame is the nth of many frames of a type, with as much to keep in it as the type allows.
func hostileFrame(t wire.Type, n int) (stream uint32, message any) {
	long := strings.Repeat("x", 64<<10)
	switch t {
	case wire.TypeExit:
		return 0, wire.Exit{Rank: 2, Failed: long}
	case wire.TypeLost:
		return 0, wire.Lost{By: 2, Rank: 3, Cause: long}
	case wire.TypePut:
		return 0, wire.Put{Key: "k", Value: []byte(long)}
	case wire.TypeGet:
		return 0, wire.Get{ID: uint64(n), Key: fmt.Sprint(n), Wait: time.Hour}
	case wire.TypeFence:
		return 0, wire.Fence{Name: "f", Values: map[int][]byte{2: []byte(long[:60<<10])}}
	case wire.TypeFailing:
		return 0, wire.Failing{Broken: long}
	case wire.TypeNote:
		return 0, wire.Note{By: 2, Text: long}
	case wire.TypeEntered:
		return 0, wire.Entered{Ranks: []int{2}}
	case wire.TypeSpawn:
		return 0, wire.SpawnRequest{
			ID:       uint64(n),
			By:       2,
			Programs: []wire.SpawnProgram{{Argv: wire.Texts{"a"}, Ranks: 1}},
			Given:    map[string][]byte{"k": []byte(long)},
		}
	}
	return wire.OutputStream(2, 1), nil
}

// mostKept is how much the launcher may keep of what one host sends.
const mostKept = 12 << 20

// flooding is an agent that repeats frames of one type, and then says how its ranks have ended. It
// sets kept to what the launcher keeps of the frames.
func flooding(kind wire.Type, frames int, kept *int64, next func(n int) (stream uint32, message any)) *fake.Machine {
	return serving(func(a *fake.Agent) error {
		if a.Job.Elastic != nil {
			if err := a.Join(); err != nil || a.Job.Ranks[0].Rank == 0 {
				return a.Live(time.Now().Add(5 * time.Second))
			}
		}
		before := heapSize()
		over := make(chan struct{})
		go func() {
			defer close(over)
			_ = a.UntilEOF()
		}()
		for n := range frames {
			stream, message := next(n)
			payload := []byte{}
			switch {
			case message != nil:
				payload = session.Encode(message)
			case kind == wire.TypeHeartbeat:
				payload = make([]byte, 8)
			case kind == wire.TypeOutput:
				payload = make([]byte, wire.MaxData)
			}
			if a.Out.Send(kind, stream, payload) != nil {
				break
			}
		}
		time.Sleep(time.Second)
		*kept = heapSize() - before
		for _, r := range a.Job.Ranks {
			_ = a.Exit(wire.Exit{Rank: r.Rank})
		}
		_ = a.Out.Send(wire.TypeDone, 0, nil)
		<-over
		return nil
	})
}

// Whatever type of frame a host repeats while a job runs, it is a violation or the launcher keeps
// little.
func TestEveryFrameIsBounded(t *testing.T) {
	bounds := frameBounds()
	for kind := wire.Type(1); !strings.HasPrefix(kind.String(), "type "); kind++ {
		bound, known := bounds[kind]
		if !known {
			t.Errorf("a %s frame has no bound: add one, and a row to this table", kind)
			continue
		}
		t.Run(kind.String(), func(t *testing.T) {
			frames := 400
			switch {
			case bound == refused:
				frames = 1
			case kind == wire.TypeGet:
				frames = 9000 // more than may wait
			}
			var kept int64
			hostile := flooding(kind, frames, &kept, func(n int) (uint32, any) { return hostileFrame(kind, n) })
			r := must.Get(runOn(t, []*fake.Machine{serving(succeed), hostile}, nil))(t)
			violated := r.Cause != nil && r.Cause.Host == "h1" && r.Cause.Lost != nil
			check.That(t, kept <= mostKept, "%d frames make the launcher keep %d MiB", frames, kept>>20)
			if malformed := (*wire.FormatError)(nil); bound != passing &&
				!(violated && errors.As(r.Cause.Lost, &malformed)) {
				t.Errorf("the host is not blamed, whose frames are bounded thus: %s; %v", bound, r.Cause)
			}
		})
	}
}

// A newcomer of an elastic job can make the launcher keep no more than a host of a fixed job, and
// it speaks for no other process: the others go on, or their epoch ends.
func TestEveryFrameOfANewcomerIsBounded(t *testing.T) {
	for _, kind := range []wire.Type{wire.TypePark, wire.TypeJoined, wire.TypeLost, wire.TypeFence, wire.TypeExit,
		wire.TypeEntered, wire.TypeSpawn, wire.TypeFailing, wire.TypeNote, wire.TypeSuspended, wire.TypeDone} {
		t.Run(kind.String(), func(t *testing.T) {
			var kept int64
			_, err := elasticOn(t, flooding(kind, 400, &kept, func(n int) (uint32, any) {
				switch kind {
				case wire.TypePark:
					return 0, wire.Park{Left: n % 3}
				case wire.TypeJoined:
					return 0, wire.Joined{Epoch: n}
				case wire.TypeLost:
					cause := strings.Repeat("x", 64<<10)
					return 0, wire.Lost{
						Epoch: 1,
						By:    n % 2,
						Rank:  1 << 30,
						Cause: cause,
					}
				case wire.TypeFence:
					return 0, wire.Fence{Epoch: 1, Name: fmt.Sprint(n % 2), Values: map[int][]byte{0: nil}}
				}
				_, message := hostileFrame(kind, n)
				return 0, message
			}), nil)
			check.OK(t, err)
			check.That(t, kept <= mostKept, "400 frames make the launcher keep %d MiB", kept>>20)
		})
	}
}
