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

// Whatever type of frame a host repeats while a job runs, it is a violation or the launcher keeps
// little.
func TestEveryFrameIsBounded(t *testing.T) {
	const most = 12 << 20
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
			before := heapSize()
			var kept int64
			flood := func(a *fake.Agent) error {
				go a.UntilEOF()
				for n := range frames {
					stream, message := hostileFrame(kind, n)
					payload := []byte{}
					if message != nil {
						payload = session.Encode(message)
					}
					switch kind {
					case wire.TypeHeartbeat:
						payload = make([]byte, 8)
					case wire.TypeOutput:
						payload = make([]byte, wire.MaxData)
					}
					if a.Out.Send(kind, stream, payload) != nil {
						break
					}
				}
				time.Sleep(time.Second)
				kept = heapSize() - before
				_ = errors.Join(a.Exit(wire.Exit{Rank: 2}), a.Exit(wire.Exit{Rank: 3}),
					a.Out.Send(wire.TypeDone, 0, nil))
				<-a.Ctx.Done()
				return nil
			}
			r, err := runOn(t, []*fake.Machine{serving(succeed), serving(flood)}, nil)
			must.OK(t, err)
			violated := r.Cause != nil && r.Cause.Host == "h1" && r.Cause.Lost != nil
			check.That(t, kept <= most, "%d frames make the launcher keep %d MiB", frames, kept>>20)
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
	const most = 12 << 20
	const frames = 400
	for _, kind := range []wire.Type{wire.TypePark, wire.TypeJoined, wire.TypeLost, wire.TypeFence, wire.TypeExit,
		wire.TypeEntered, wire.TypeSpawn, wire.TypeFailing, wire.TypeNote, wire.TypeSuspended, wire.TypeDone} {
		t.Run(kind.String(), func(t *testing.T) {
			before := heapSize()
			var kept int64
			m := serving(func(a *fake.Agent) error {
				if err := a.Join(); err != nil || a.Job.Ranks[0].Rank == 0 {
					return a.Live(time.Now().Add(5 * time.Second))
				}
				go a.UntilEOF()
				for n := range frames {
					_, message := hostileFrame(kind, n)
					switch kind {
					case wire.TypePark:
						message = wire.Park{Left: n % 3}
					case wire.TypeJoined:
						message = wire.Joined{Epoch: n}
					case wire.TypeLost:
						message = wire.Lost{
							Epoch: 1,
							By:    n % 2,
							Rank:  1 << 30,
							Cause: strings.Repeat("x", 64<<10),
						}
					case wire.TypeFence:
						message = wire.Fence{Epoch: 1, Name: fmt.Sprint(n % 2), Values: map[int][]byte{0: nil}}
					}
					payload := []byte{}
					if message != nil {
						payload = session.Encode(message)
					}
					if a.Out.Send(kind, 0, payload) != nil {
						break
					}
				}
				time.Sleep(time.Second)
				kept = heapSize() - before
				_ = a.Finish(wire.Exit{})
				return nil
			})
			if _, err := elasticOn(t, m, nil); err != nil {
				t.Error(err)
			}
			check.That(t, kept <= most, "%d frames make the launcher keep %d MiB", frames, kept>>20)
		})
	}
}
