package launcher

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/fake"
)

// script draws values from a fuzzer's input. Most are honest: a violation ends a session.
type script struct {
	rest []byte
	own  []int // the host's ranks that have not ended
}

// next draws a number below n, 0 at the end of the input.
func (s *script) next(n int) int {
	if len(s.rest) == 0 {
		return 0
	}
	drawn := int(s.rest[0]) % n
	s.rest = s.rest[1:]
	return drawn
}

func (s *script) flag() bool { return s.next(4) == 3 }

// one draws one of the values.
func one[T any](s *script, values ...T) T { return values[s.next(len(values))] }

// oddly draws a value that is rarely the odd one.
func oddly[T any](s *script, usual, odd T) T {
	if s.next(64) == 63 {
		return odd
	}
	return usual
}

// any draws a rank, or a number of none.
func (s *script) any() int { return oddly(s, s.next(12), one(s, -1, 1<<20, 1<<40)) }

// rank draws a rank of the host, rarely another.
func (s *script) rank() int {
	if len(s.own) == 0 {
		return s.any()
	}
	return oddly(s, one(s, s.own...), s.any())
}

func (s *script) text() string {
	return one(s, "", "x", "f", "pmi/f", "pmix/f", evil, "h0", "h1:2,localhost", strings.Repeat("x", 5000))
}

func (s *script) wait() time.Duration { return time.Duration(s.next(12)*s.next(12)) * time.Second / 4 }

func (s *script) exit() wire.Exit {
	return wire.Exit{
		Rank:        s.rank(),
		Code:        oddly(s, one(s, 0, 1, 127, 255), -1),
		Signal:      oddly(s, one(s, 0, 0, 9, 15), 4000),
		Stopped:     s.flag(),
		Aborted:     s.flag(),
		At:          one(s, 0, time.Second, -1<<63, 1<<63-1),
		MPI:         oddly(s, one(s, "", "", wire.MPIAborted, wire.MPIUnfinished), "x"),
		Failed:      s.text(),
		OutOfMemory: oddly(s, one(s, "", "", wire.MemoryOfGroup, wire.MemoryLikely), "x"),
	}
}

// message draws a message of a running job's agent.
func (s *script) message() (kind wire.Type, message any) {
	switch s.next(13) {
	case 0, 1, 2:
		return wire.TypeExit, s.exit()
	case 3:
		return wire.TypeLost, wire.Lost{
			Epoch:   s.next(3),
			By:      s.rank(),
			Rank:    s.any(),
			Cause:   s.text(),
			Awaited: s.flag(),
			Left:    s.flag(),
		}
	case 4:
		values := map[int][]byte{s.rank(): nil}
		if s.flag() {
			values[s.rank()] = []byte(s.text())
		}
		return wire.TypeFence, wire.Fence{Epoch: s.next(3), Name: s.text(), Values: values}
	case 5, 6:
		host := one(s, "", "", s.text())
		program := wire.SpawnProgram{Argv: wire.Texts{"a"}, Ranks: one(s, 1, 2, 5, 0, -1), Host: host}
		return wire.TypeSpawn, wire.SpawnRequest{
			By:       s.rank(),
			Programs: slices.Repeat([]wire.SpawnProgram{program}, one(s, 1, 2, 0)),
		}
	case 7:
		return wire.TypeNote, wire.Note{
			By:     s.rank(),
			Text:   s.text(),
			Stall:  s.flag(),
			Detail: s.flag(),
		}
	case 8:
		return wire.TypeEntered, wire.Entered{Ranks: slices.Repeat([]int{s.rank()}, s.next(3))}
	case 9:
		return one(s, wire.TypePut, wire.TypePut, wire.TypeGet), struct {
			Key   string
			Value []byte
			Wait  time.Duration
		}{one(s, s.text(), "ask/0/1/1", "answer/0/1/1", "gorun/x"), []byte(s.text()), s.wait()}
	case 10:
		return wire.TypeFailing, wire.Failing{GuardGone: s.flag(), Signal: s.text(), Broken: s.text()}
	case 11:
		return wire.TypeDone, wire.Done{Unkillable: slices.Repeat([]wire.Process{{Name: s.text()}}, s.next(3))}
	}
	return oddly(s, wire.TypeSuspended, one(s, wire.TypePark, wire.TypeJoined)), map[string]int{"Left": s.next(3)}
}

// play is an agent that sends what the script says, and then ends or is silent.
func (s script) play(a *fake.Agent) error {
	ends := s.flag()
	ready := wire.Ready{
		FreePort: 4000,
		PMIx:     s.flag(),
		Note:     s.text(),
		GPUs:     s.text(),
	}
	if s.flag() {
		ready.Places = []wire.Placement{{Rank: s.rank(), CPUs: s.text()}, {Rank: s.rank(), GPUs: []string{s.text()}}}
	}
	f, err := a.Expect(wire.TypeJob)
	err = errors.Join(err, f.Decode(&a.Job), a.Out.SendMessage(wire.TypeReady, ready))
	for _, r := range a.Job.Ranks {
		s.own = append(s.own, r.Rank)
	}
	spawned := a.Job.Spawn.First
	if err == nil {
		_, err = a.Expect(wire.TypeStart)
	}
	go a.UntilEOF()
	for err == nil && len(s.rest) > 0 {
		switch s.next(16) {
		case 0, 3:
			time.Sleep(s.wait())
			err = a.Out.SendHeartbeat(s.wait())
		case 1:
			err = a.Out.Send(wire.TypeOutput, wire.OutputStream(s.rank(), s.next(4)), []byte(s.text()))
		case 2:
			err = a.Out.Send(wire.Type(s.next(60)), uint32(s.next(9)), []byte(one(&s, "", "{}", "1234", "12345678")))
		default:
			kind, message := s.message()
			err = a.Out.SendMessage(kind, message)
			switch m := message.(type) {
			case wire.Exit:
				s.own = slices.DeleteFunc(s.own, func(rank int) bool { return rank == m.Rank })
			case wire.SpawnRequest: // which may be answered by such a rank
				if a.Job.Spawn.Most > 0 && len(s.own) < 8 {
					time.Sleep(time.Millisecond)
					s.own = append(s.own, spawned)
					spawned += a.Job.Spawn.Step
				}
			}
		}
	}
	if err == nil && !ends {
		<-a.Ctx.Done()
	}
	return err
}

// honestWork is how long the ranks of honest agents work.
const honestWork = 30 * time.Second

// honest is an agent whose ranks work for a while, and whose spawned ranks end at once. It does as
// it is told.
func honest(a *fake.Agent) error {
	stop := make(chan struct{}, 1)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for f, err := a.Frames.Next(); err == nil; f, err = a.Frames.Next() {
			var w wire.World
			switch {
			case f.Type == wire.TypeStop && len(stop) == 0:
				stop <- struct{}{}
			case f.Type == wire.TypeWorld && f.Decode(&w) == nil:
				for i, number := range w.Numbers {
					if w.HostOf[i] == int(a.Job.Host[1]-'0') {
						_ = a.Exit(wire.Exit{Rank: number})
					}
				}
			}
		}
	}()
	end := wire.Exit{}
	for worked := time.Duration(0); end.Signal == 0 && (worked < honestWork || a.Job.Stay); worked += time.Second {
		_ = a.Out.SendHeartbeat(worked)
		select {
		case <-time.After(time.Second):
		case <-stop:
			end = wire.Exit{Signal: 15, Stopped: true}
		case <-gone:
			return nil
		}
	}
	for _, r := range a.Job.Ranks {
		end.Rank = r.Rank
		_ = a.Exit(end)
	}
	_ = a.Out.Send(wire.TypeDone, 0, nil)
	<-gone
	return nil
}
