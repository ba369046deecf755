package launcher

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/wire"
	"github.com/gorun/gorun/launcher/plan"
)

// simulation plays one random job: agents that end ranks, report, die or never
// answer, and a user who wants it to end.
type simulation struct {
	rnd  *rand.Rand
	core *core
	now  time.Duration

	running [][]int // by host: ranks that have not ended
	deaf    []bool  // hosts that do not do what they are told
	told    bool    // the agents know that they must stop
	log     []string

	bound    time.Duration // when the job must be over, once it is being stopped
	stops    int
	aborts   int
	failures int // ranks that failed by themselves, and lost hosts
	wished   bool
	finished bool
}

func newSimulation(seed uint64) *simulation {
	rnd := rand.New(rand.NewPCG(seed, 1))
	hosts := make([]hostfile.Host, 1+rnd.IntN(4))
	for i := range hosts {
		hosts[i] = hostfile.Host{Name: fmt.Sprint("h", i), Slots: 1 + rnd.IntN(3)}
	}
	plan, err := plan.New(hosts, Request{})
	if err != nil {
		panic(err)
	}
	s := &simulation{rnd: rnd, core: newCore(plan, time.Duration(rnd.IntN(10))*time.Second), deaf: make([]bool, len(hosts))}
	for i, h := range plan.Hosts {
		var ranks []int
		for _, r := range h.Ranks {
			ranks = append(ranks, r.Rank)
		}
		s.running = append(s.running, ranks)
		s.deaf[i] = rnd.IntN(8) == 0
	}
	return s
}

// next is what happens now: the likelier, the duller.
func (s *simulation) next() any {
	host := s.rnd.IntN(len(s.running))
	switch n := s.rnd.IntN(100); {
	case n < 50:
		return s.hostEvent(host)
	case n < 53:
		return eventLost{wire.Lost{By: s.rnd.IntN(4), Rank: s.rnd.IntN(4), Cause: "reset"}}
	case n < 55:
		return eventGone{host, errors.New("gone")}
	case n < 57:
		return eventStop{StopReason(1 + s.rnd.IntN(5)), s.rnd.IntN(2) == 0}
	}
	return eventTick{}
}

// hostEvent is what a host has to say next.
func (s *simulation) hostEvent(host int) any {
	ranks := s.running[host]
	if s.deaf[host] {
		return eventTick{}
	}
	if len(ranks) == 0 {
		return eventDone{host: host}
	}
	i := s.rnd.IntN(len(ranks))
	e := Exit{Rank: ranks[i], At: s.now - time.Duration(s.rnd.IntN(50))*time.Millisecond, Stopped: s.told && s.rnd.IntN(4) > 0}
	switch s.rnd.IntN(6) {
	case 0:
		e.Code = 1 + s.rnd.IntN(255)
	case 1:
		e.Signal = 1 + s.rnd.IntN(31)
	default:
		if e.Stopped {
			e.Signal = 15
		}
	}
	s.running[host] = append(append([]int(nil), ranks[:i]...), ranks[i+1:]...)
	return eventExit{host, e}
}

// step plays one event and checks what the core does against the promises of a job.
func (s *simulation) step() error {
	event := s.next()
	if s.rnd.IntN(3) > 0 {
		s.now += time.Duration(s.rnd.IntN(400)) * time.Millisecond
	}
	s.log = append(s.log, fmt.Sprintf("%v %T%+v", s.now, event, event))
	wasStopping := s.core.stopping
	acts := s.core.step(event, s.now)
	for i, act := range acts {
		switch act := act.(type) {
		case actStop:
			s.stops++
			s.told = true
			if bound := s.now + act.grace + stopMargin; wasStopping && bound >= s.bound {
				return fmt.Errorf("a later stop gives more time: %v after %v", bound, s.bound)
			} else {
				s.bound = bound
			}
		case actAbort:
			s.aborts++
		case actFinish:
			s.finished = true
			if i != len(acts)-1 {
				return errors.New("something is done after the end")
			}
		}
	}
	return s.check(event)
}

func (s *simulation) check(event any) error {
	switch e := event.(type) {
	case eventExit:
		if e.exit.failed() && !e.exit.Stopped {
			s.failures++
		}
	case eventStop:
		s.wished = true
	}
	switch {
	case s.aborts > 1:
		return errors.New("the ranks were told twice")
	case s.failures > 0 && s.stops == 0:
		return errors.New("a rank failed and the job goes on")
	case s.wished && s.stops == 0:
		return errors.New("the user wants the end and the job goes on")
	case s.stops > 0 && s.now >= s.bound && !s.finished:
		return fmt.Errorf("not over at %v, bound %v", s.now, s.bound)
	}
	return nil
}

// checkResult holds the outcome against what happened.
func (s *simulation) checkResult() error {
	r := s.core.result()
	code := r.Code()
	clean := r.Cause == nil && r.Stopped == NotStopped && len(r.Lost) == 0 && len(r.Unconfirmed) == 0
	hosts := len(r.Lost) + len(r.Unconfirmed)
	for _, h := range s.core.hosts {
		if h.done && h.lost == nil {
			hosts++
		}
	}
	switch {
	case code < 0 || code > 255:
		return fmt.Errorf("exit code %d", code)
	case clean != (code == 0):
		return fmt.Errorf("code %d for %+v", code, r)
	case (r.Cause != nil) != (s.failures > 0 || len(r.Lost) > 0):
		return fmt.Errorf("cause %v with %d failures and %d hosts lost", r.Cause, s.failures, len(r.Lost))
	case r.Cause != nil && r.Cause.Lost == nil && (r.Cause.Exit.Stopped || !r.Cause.Exit.failed()):
		return fmt.Errorf("cause %v is no failure of its own", r.Cause)
	case hosts != len(s.core.hosts):
		return fmt.Errorf("%d hosts in the result of %d", hosts, len(s.core.hosts))
	case len(r.Unconfirmed) > 0 && s.now < s.bound:
		return fmt.Errorf("gave up at %v, before %v", s.now, s.bound)
	}
	return nil
}

func TestCoreInAnyOrderOfEvents(t *testing.T) {
	ends := map[int]int{}
	for seed := range uint64(5000) {
		s := newSimulation(seed)
		fail := func(err error) {
			t.Helper()
			for _, line := range s.log {
				t.Log(line)
			}
			t.Fatalf("seed %d: %v", seed, err)
		}
		for range 3000 {
			if err := s.step(); err != nil {
				fail(err)
			}
			if s.finished {
				break
			}
		}
		if !s.finished {
			fail(errors.New("the job never ends"))
		}
		if err := s.checkResult(); err != nil {
			fail(err)
		}
		for range 5 {
			if acts := s.core.step(s.next(), s.now+time.Hour); acts != nil {
				fail(fmt.Errorf("after the end: %v", acts))
			}
		}
		ends[s.core.result().Code()]++
	}
	// A simulation that never sees an end of each kind tests less than it says.
	for _, code := range []int{0, CodeLaunch, CodeTimeout, 130, 143} {
		if ends[code] == 0 {
			t.Errorf("no job ended with %d", code)
		}
	}
}
