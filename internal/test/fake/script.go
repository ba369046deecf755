package fake

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
)

// Evil is text that must not reach a terminal as it is.
const Evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\n\x00"

// Script draws values from a fuzzer's input. Most are honest: a violation ends a session.
type Script struct {
	Rest []byte
	own  []int // the host's ranks that have not ended
}

// Next draws a number below n, 0 at the end of the input.
func (s *Script) Next(n int) int {
	if len(s.Rest) == 0 {
		return 0
	}
	drawn := int(s.Rest[0]) % n
	s.Rest = s.Rest[1:]
	return drawn
}

// Flag draws what is rarely true.
func (s *Script) Flag() bool { return s.Next(4) == 3 }

// One draws one of the values.
func One[T any](s *Script, values ...T) T { return values[s.Next(len(values))] }

// Oddly draws a value that is rarely the odd one.
func Oddly[T any](s *Script, usual, odd T) T {
	if s.Next(64) == 63 {
		return odd
	}
	return usual
}

// Any draws a rank, or a number of none.
func (s *Script) Any() int { return Oddly(s, s.Next(12), One(s, -1, 1<<20, 1<<40)) }

// Rank draws a rank of the host, rarely another.
func (s *Script) Rank() int {
	if len(s.own) == 0 {
		return s.Any()
	}
	return Oddly(s, One(s, s.own...), s.Any())
}

// Text draws a text, perhaps one that no terminal should get.
func (s *Script) Text() string {
	return One(s, "", "x", "f", "pmi/f", "pmix/f", Evil, "h0", "h1:2,localhost", strings.Repeat("x", 5000))
}

// Wait draws a time of up to half a minute.
func (s *Script) Wait() time.Duration { return time.Duration(s.Next(12)*s.Next(12)) * time.Second / 4 }

func (s *Script) exit() wire.Exit {
	return wire.Exit{
		Rank:        s.Rank(),
		Code:        Oddly(s, One(s, 0, 1, 127, 255), -1),
		Signal:      Oddly(s, One(s, 0, 0, 9, 15), 4000),
		Stopped:     s.Flag(),
		Aborted:     s.Flag(),
		At:          One(s, 0, time.Second, -1<<63, 1<<63-1),
		MPI:         Oddly(s, One(s, "", "", wire.MPIAborted, wire.MPIUnfinished), "x"),
		Failed:      s.Text(),
		OutOfMemory: Oddly(s, One(s, "", "", wire.MemoryOfGroup, wire.MemoryLikely), "x"),
	}
}

// message draws a message of a running job's agent.
func (s *Script) message() (kind wire.Type, message any) {
	switch s.Next(13) {
	case 0, 1, 2:
		return wire.TypeExit, s.exit()
	case 3:
		return wire.TypeLost, wire.Lost{
			Epoch:   s.Next(3),
			By:      s.Rank(),
			Rank:    s.Any(),
			Cause:   s.Text(),
			Awaited: s.Flag(),
			Left:    s.Flag(),
		}
	case 4:
		values := map[int][]byte{s.Rank(): nil}
		if s.Flag() {
			values[s.Rank()] = []byte(s.Text())
		}
		return wire.TypeFence, wire.Fence{Epoch: s.Next(3), Name: s.Text(), Values: values}
	case 5, 6:
		host := One(s, "", "", s.Text())
		program := wire.SpawnProgram{Argv: wire.Texts{"a"}, Ranks: One(s, 1, 2, 5, 0, -1), Host: host}
		return wire.TypeSpawn, wire.SpawnRequest{
			By:       s.Rank(),
			Programs: slices.Repeat([]wire.SpawnProgram{program}, One(s, 1, 2, 0)),
		}
	case 7:
		return wire.TypeNote, wire.Note{
			By:     s.Rank(),
			Text:   s.Text(),
			Stall:  s.Flag(),
			Detail: s.Flag(),
		}
	case 8:
		return wire.TypeEntered, wire.Entered{Ranks: slices.Repeat([]int{s.Rank()}, s.Next(3))}
	case 9:
		return One(s, wire.TypePut, wire.TypePut, wire.TypeGet), struct {
			Key   string
			Value []byte
			Wait  time.Duration
		}{One(s, s.Text(), "ask/0/1/1", "answer/0/1/1", "gorun/x"), []byte(s.Text()), s.Wait()}
	case 10:
		return wire.TypeFailing, wire.Failing{GuardGone: s.Flag(), Signal: s.Text(), Broken: s.Text()}
	case 11:
		return wire.TypeDone, wire.Done{Unkillable: slices.Repeat([]wire.Process{{Name: s.Text()}}, s.Next(3))}
	}
	return Oddly(s, wire.TypeSuspended, One(s, wire.TypePark, wire.TypeJoined)), map[string]int{"Left": s.Next(3)}
}

// Play is the agent of a job that sends what the script says, and then ends or is silent.
func (s Script) Play(a *Agent) error { return s.PlayWith(a, nil) }

// PlayWith is Play, of an agent that may send more, as Talk does. It begins with the first request,
// of whatever kind.
func (s *Script) PlayWith(a *Agent, more func() error) error {
	ends := s.Flag()
	ready := wire.Ready{
		FreePort: 4000,
		PMIx:     s.Flag(),
		Note:     s.Text(),
		GPUs:     s.Text(),
	}
	if s.Flag() {
		ready.Places = []wire.Placement{{Rank: s.Rank(), CPUs: s.Text()}, {Rank: s.Rank(), GPUs: []string{s.Text()}}}
	}
	f, err := a.Frames.Next()
	for err == nil && f.Type == wire.TypeHeartbeat {
		f, err = a.Frames.Next()
	}
	if err == nil && f.Type == wire.TypeJob {
		err = errors.Join(f.Decode(&a.Job), a.Out.SendMessage(wire.TypeReady, ready))
		for _, r := range a.Job.Ranks {
			s.own = append(s.own, r.Rank)
		}
		if err == nil {
			_, err = a.Expect(wire.TypeStart)
		}
	}
	go a.UntilEOF()
	if err == nil {
		err = s.Talk(a, more)
	}
	if err == nil && !ends {
		<-a.Ctx.Done()
	}
	return err
}

// Talk sends what the script says, up to its end. more sends what an agent of another kind may say;
// nil: there is none.
func (s *Script) Talk(a *Agent, more func() error) (err error) {
	spawned := a.Job.Spawn.First
	for err == nil && len(s.Rest) > 0 {
		switch what := s.Next(16); {
		case what > 4 && more != nil:
			err = more()
		case what == 0 || what == 3:
			select {
			case <-time.After(s.Wait()):
				err = a.Out.SendHeartbeat(s.Wait())
			case <-a.Ctx.Done():
				err = a.Ctx.Err()
			}
		case what == 1:
			err = a.Out.Send(wire.TypeOutput, wire.OutputStream(s.Rank(), s.Next(4)), []byte(s.Text()))
		case what == 2:
			err = a.Out.Send(wire.Type(s.Next(60)), uint32(s.Next(9)), []byte(One(s, "", "{}", "1234", "12345678")))
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
	return err
}

// AddScripts adds as many long scripts, with which the fuzzer begins.
func AddScripts(f *testing.F, scripts uint64) {
	for seed := range scripts {
		from := rand.New(rand.NewPCG(seed, 5))
		long := make([]byte, 1+from.IntN(500))
		for i := range long {
			long[i] = byte(from.Uint32())
		}
		f.Add(long)
	}
}

// HonestWork is how long the ranks of honest agents work.
const HonestWork = 30 * time.Second

// Honest is an agent whose ranks work for a while, and whose spawned ranks end at once. It does as
// it is told.
func Honest(a *Agent) error {
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
	for worked := time.Duration(0); end.Signal == 0 && (worked < HonestWork || a.Job.Stay); worked += time.Second {
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
