package agent

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/check"
)

// at is an event and the second at which it comes.
type at struct {
	second float64
	event  event
}

// play steps a core for ranks 4 and 5 through events and writes down what it
// does: "1s TERM 4".
func play(events []at) (*core, []string) {
	config := defaultConfig(5 * time.Second)
	config.memory = *kills(0)
	c := newCore(config, 0)
	c.step(eventRunning{[]int{4, 5}, 2}, 0)
	var did []string
	for _, e := range events {
		now := time.Duration(e.second * float64(time.Second))
		for _, act := range c.step(e.event, now) {
			did = append(did, fmt.Sprintf("%v %s", now, describe(act)))
		}
	}
	return c, did
}

func describe(act action) string {
	switch act := act.(type) {
	case actSignal:
		return fmt.Sprintf("%s %d", strings.TrimPrefix(unix.SignalName(act.signal), "SIG"), act.rank)
	case actReport:
		e := act.exit
		text := fmt.Sprintf("report %d code %d signal %d stopped %v", e.Rank, e.Code, e.Signal, e.Stopped)
		if e.Aborted {
			text += " aborted"
		}
		if e.OutOfMemory != "" {
			text += " beyond the memory of " + string(e.OutOfMemory)
		}
		return text
	default:
		return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", act), "agent.act"))
	}
}

// kills is the reading of a cgroup with a limit that has killed n processes.
func kills(n int64) *memoryReading {
	return &memoryReading{Groups: []memoryGroup{{Limit: 1 << 30, Kills: n, Full: n}}}
}

func exited(rank, code int, second float64) at {
	return at{second, eventExited{rank: rank, code: code}}
}
func drained(rank int, second float64) at { return at{second, eventDrained{rank}} }

func TestCore(t *testing.T) {
	const stop = "1s TERM 4, 1s CONT 4, 1s TERM 5, 1s CONT 5"
	stopAt := func(grace time.Duration, second float64) at { return at{second, eventStop{grace}} }
	lost := func(second float64) at { return at{second, eventLost{}} }
	look := func(r lineReading, second float64) at { return at{second, eventReading{r}} }
	suspend := func(second float64) at { return at{second, eventSuspend{true}} }
	resume := func(second float64) at { return at{second, eventSuspend{false}} }
	killed := func(rank int, second float64) at { return at{second, eventExited{rank: rank, signal: 9}} }
	outOfMemory := func(rank int, n int64, second float64) at {
		return at{second, eventExited{rank: rank, signal: 9, memory: kills(n)}}
	}
	tests := []struct {
		name   string
		events []at
		did    string // joined by ", "
	}{
		{"all end well", []at{exited(4, 0, 1), drained(4, 1), drained(4, 1), drained(5, 1), exited(5, 0, 2),
			drained(5, 2)},
			"1s report 4 code 0 signal 0 stopped false, 2s report 5 code 0 signal 0 stopped false, 2s finish"},
		{"one rank's end stops nobody: that is the launcher's to decide",
			[]at{exited(4, 7, 1), drained(4, 1), drained(4, 1), {50, eventTick{}}},
			"1s report 4 code 7 signal 0 stopped false"},
		{"output holds up the end", []at{exited(4, 0, 1), exited(5, 0, 1), drained(4, 1), drained(4, 1), drained(5, 1),
			{5, eventTick{}}},
			"1s report 4 code 0 signal 0 stopped false, 1s report 5 code 0 signal 0 stopped false"},
		{"a rank that never started has no output", []at{{1, eventExited{
			rank:           4,
			code:           127,
			failed:         "x",
			outputFinished: true,
		}}, exited(5, 0, 1), drained(5, 1), drained(5, 1)},
			"1s report 4 code 127 signal 0 stopped false, 1s report 5 code 0 signal 0 stopped false, 1s finish"},
		{"a stop asks first", []at{stopAt(3*time.Second, 1), {3.9, eventTick{}}, {4, eventTick{}}, {4.5, eventTick{}}},
			stop + ", 4s killtree, 4.5s killtree"},
		{"a stop without grace kills too", []at{stopAt(0, 1)}, stop + ", 1s killtree"},
		{"a second stop can only hurry", []at{stopAt(3*time.Second, 1), stopAt(9*time.Second, 2), {3.9, eventTick{}},
			stopAt(0, 3.95)},
			stop + ", 3.95s killtree"},
		{"a rank that ends after a stop was stopped",
			[]at{exited(4, 1, 0.5), stopAt(3*time.Second, 1), exited(5, 1, 1.5)},
			"500ms report 4 code 1 signal 0 stopped false, 1s TERM 5, 1s CONT 5, 1.5s report 5 code 1 signal 0 " +
				"stopped true"},
		{"a rank that ended before the TERM was not stopped",
			[]at{stopAt(3*time.Second, 1), {1.1, eventExited{rank: 4, code: 3, early: true}}},
			stop + ", 1.1s report 4 code 3 signal 0 stopped false"},
		{"nor a rank that was killed before our KILL", []at{stopAt(3*time.Second, 1), killed(4, 1.1), {4, eventTick{}},
			killed(5, 4.5)},
			stop + ", 1.1s report 4 code 0 signal 9 stopped false, 4s killtree, 4.5s report 5 code 0 signal 9 " +
				"stopped true"},
		{"the guard has ended: the launcher is informed",
			[]at{{1, eventFailing{}}, {1.5, eventFailing{}}, {6, eventTick{}}, killed(4, 6.1), killed(5, 6.1)},
			"1s fail, 1s abandon, 1s TERM 4, 1s CONT 4, 1s TERM 5, 1s CONT 5, 6s killtree, 6.1s report 4 code 0 " +
				"signal 9 stopped true, 6.1s report 5 code 0 signal 9 stopped true, 6.1s finish"},
		{"the launcher is lost: output is not awaited",
			[]at{lost(1), {5.9, eventTick{}}, {6, eventTick{}}, killed(4, 6.1), killed(5, 6.1)},
			"1s abandon, " + stop + ", 6s killtree, 6.1s report 4 code 0 signal 9 stopped true, 6.1s report 5 code 0 " +
				"signal 9 stopped true, 6.1s finish"},
		{"lost once", []at{lost(1), lost(2)}, "1s abandon, " + stop},
		{"lost while stopping", []at{stopAt(time.Second, 1), lost(1.5), {2, eventTick{}}},
			stop + ", 1.5s abandon, 2s killtree"},
		{"lost when only output is left", []at{exited(4, 0, 1), exited(5, 0, 1), lost(2)},
			"1s report 4 code 0 signal 0 stopped false, 1s report 5 code 0 signal 0 stopped false, 2s abandon, 2s " +
				"finish"},
		{"silence within the lease", []at{{60, eventTick{}}, {60, eventHeard{}}, {120, eventTick{}}}, ""},
		{"silence beyond it", []at{{0.5, eventHeard{}}, {60.5, eventTick{}}, {61, eventTick{}}},
			"1m1s abandon, 1m1s TERM 4, 1m1s CONT 4, 1m1s TERM 5, 1m1s CONT 5"},
		{"signals go to those that run", []at{exited(4, 0, 1), {1, eventSignal{int(syscall.SIGUSR1)}}},
			"1s report 4 code 0 signal 0 stopped false, 1s USR1 5"},
		{"a dead network", []at{look(lineReading{acked: 1, received: 1}, 1), look(lineReading{
			acked:    1,
			received: 1,
			unacked:  1,
			retries:  3,
			heard:    6 * time.Second,
		}, 7.5)},
			"7.5s abandon, 7.5s TERM 4, 7.5s CONT 4, 7.5s TERM 5, 7.5s CONT 5"},
		{"suspended beyond the lease, and resumed", []at{suspend(1), {200, eventTick{}}, resume(201),
			{260, eventTick{}}},
			"1s STOP 4, 1s STOP 5, 1s stopped, 3m21s CONT 4, 3m21s CONT 5"},
		{"the lease begins again after that", []at{suspend(1), resume(201), {262, eventTick{}}},
			"1s STOP 4, 1s STOP 5, 1s stopped, 3m21s CONT 4, 3m21s CONT 5, 4m22s abandon, 4m22s TERM 4, 4m22s CONT " +
				"4, 4m22s TERM 5, 4m22s CONT 5"},
		{"suspended twice", []at{suspend(1), suspend(1.5), resume(2), resume(3)},
			"1s STOP 4, 1s STOP 5, 1s stopped, 1.5s stopped, 2s CONT 4, 2s CONT 5"},
		{"a stop resumes suspended ranks", []at{suspend(1), stopAt(3*time.Second, 2), suspend(2.5)},
			"1s STOP 4, 1s STOP 5, 1s stopped, 2s TERM 4, 2s CONT 4, 2s TERM 5, 2s CONT 5, 2.5s stopped"},
		{"the launcher is lost while ranks are suspended", []at{suspend(1), lost(2), {7, eventTick{}}},
			"1s STOP 4, 1s STOP 5, 1s stopped, 2s abandon, 2s TERM 4, 2s CONT 4, 2s TERM 5, 2s CONT 5, 7s killtree"},
		{"the network dies while ranks are suspended", []at{suspend(1), look(lineReading{}, 2),
			look(lineReading{unacked: 1, retries: 3, heard: 9 * time.Second}, 11)},
			"1s STOP 4, 1s STOP 5, 1s stopped, 11s abandon, 11s TERM 4, 11s CONT 4, 11s TERM 5, 11s CONT 5"},
		{"an agent that was stopped itself", []at{{90, eventHeard{}}, {91, eventTick{}}, {151, eventTick{}}},
			"2m31s abandon, 2m31s TERM 4, 2m31s CONT 4, 2m31s TERM 5, 2m31s CONT 5"},
		{"an abort that reached a rank before its end",
			[]at{{1, eventAborted{[]int{5}}}, exited(4, 1, 1), exited(5, 1, 1)},
			"1s report 4 code 1 signal 0 stopped false aborted, 1s report 5 code 1 signal 0 stopped false"},
		{"one kill for memory is one rank's", []at{outOfMemory(4, 1, 1), outOfMemory(5, 1, 2)},
			"1s report 4 code 0 signal 9 stopped false beyond the memory of cgroup, 2s report 5 code 0 signal 9 " +
				"stopped false"},
		{"a rank that we have killed is not out of memory", []at{stopAt(0, 1), outOfMemory(4, 9, 2)},
			stop + ", 1s killtree, 2s report 4 code 0 signal 9 stopped true"},
		{"unknown ranks are ignored", []at{exited(9, 1, 1), drained(9, 1)}, ""},
		{"a second exit of a rank is ignored", []at{exited(4, 0, 1), exited(4, 1, 2)},
			"1s report 4 code 0 signal 0 stopped false"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if _, did := play(tc.events); strings.Join(did, ", ") != tc.did {
				t.Errorf("did  %s\nwant %s", strings.Join(did, ", "), tc.did)
			}
		})
	}
}

func TestCoreBeforeAnyRankRuns(t *testing.T) {
	for name, tc := range map[string]struct {
		event event
		at    time.Duration
		did   string
	}{
		"a tick":                       {eventTick{}, time.Second, ""},
		"a stop":                       {eventStop{time.Minute}, time.Second, "finish"},
		"the launcher's end":           {eventLost{}, time.Second, "abandon, finish"},
		"the lease":                    {eventTick{}, Lease + 1, "abandon, finish"},
		"the exit of somebody":         {eventExited{rank: 1}, time.Second, ""},
		"the end of somebody's output": {eventDrained{1}, time.Second, ""},
	} {
		var did []string
		c := newCore(defaultConfig(time.Second), 0)
		for _, act := range c.step(tc.event, tc.at) {
			did = append(did, describe(act))
		}
		check.Equal(t, strings.Join(did, ", "), tc.did, name)
		check.That(t, !c.isFinished() || c.step(eventStop{}, tc.at) == nil, "%s: it goes on after the end", name)
	}
}

// simulation is one agent's ranks: some end by themselves, some by TERM, all by
// the kill, and their output takes its time.
type simulation struct {
	rnd     *rand.Rand
	core    *core
	now     time.Duration
	grace   time.Duration
	open    map[int]int // output streams by rank
	running map[int]bool
	ignores map[int]bool // TERM
	termed  map[int]bool
	reports map[int]int

	stopping bool
	killDue  time.Duration // when the kill must have come, if stopping
	stuckDue time.Duration // when ranks that are still there count as unkillable, if killed
	stuck    bool
	kills    int
	heard    time.Duration
	gone     bool
	flushed  bool
	finished bool
	log      []string
}

func newSimulation(seed uint64) *simulation {
	rnd := rand.New(rand.NewPCG(seed, 2))
	s := &simulation{
		rnd:     rnd,
		grace:   time.Duration(rnd.IntN(5)) * time.Second,
		open:    map[int]int{},
		running: map[int]bool{},
		ignores: map[int]bool{},
		termed:  map[int]bool{},
		reports: map[int]int{},
	}
	s.core = newCore(defaultConfig(s.grace), 0)
	var ranks []int
	for i := range 1 + rnd.IntN(4) {
		rank := 10 + i
		ranks = append(ranks, rank)
		s.open[rank] = 2
		s.running[rank] = true
		s.ignores[rank] = rnd.IntN(3) == 0
	}
	s.core.step(eventRunning{ranks, 2}, 0)
	return s
}

// next draws the next event. Ranks rarely end by themselves, and soon after a TERM.
func (s *simulation) next() event {
	rank := 10 + s.rnd.IntN(len(s.open))
	switch n := s.rnd.IntN(100); {
	case n < 30 && s.running[rank]:
		if s.rnd.IntN(10) == 0 || s.termed[rank] && !s.ignores[rank] {
			delete(s.running, rank)
			return eventExited{rank: rank, code: s.rnd.IntN(2)}
		}
	case n < 50 && !s.running[rank] && s.open[rank] > 0 && s.rnd.IntN(3) == 0:
		s.open[rank]--
		return eventDrained{rank}
	case n < 52:
		return eventStop{time.Duration(s.rnd.IntN(6)) * time.Second}
	case n < 53:
		return eventLost{}
	case n < 60:
		return eventHeard{}
	case n < 62:
		return eventSignal{int(syscall.SIGUSR1)}
	}
	return eventTick{}
}

func (s *simulation) step() error {
	event := s.next()
	if s.rnd.IntN(2) == 0 {
		s.now += time.Duration(s.rnd.IntN(300)) * time.Millisecond
	}
	if s.rnd.IntN(200) == 0 {
		s.now += Lease
	}
	s.log = append(s.log, fmt.Sprintf("%v %T%+v", s.now, event, event))
	switch e := event.(type) {
	case eventStop:
		s.heard = s.now // every frame is a word from the launcher
		s.core.step(eventHeard{}, s.now)
		s.due(s.now + e.grace)
	case eventLost:
		s.leave()
	case eventHeard:
		s.heard = s.now
	case eventTick:
		if s.now-s.heard > Lease {
			s.leave()
		}
	}
	for _, act := range s.core.step(event, s.now) {
		if err := s.act(act); err != nil {
			return err
		}
	}
	return s.check(event)
}

func (s *simulation) due(at time.Duration) {
	if !s.stopping || at < s.killDue {
		s.stopping = true
		s.killDue = at
	}
}

func (s *simulation) leave() {
	if !s.gone {
		s.gone = true
		s.due(s.now + s.grace)
	}
}

func (s *simulation) act(act action) error {
	if s.finished {
		return fmt.Errorf("%s after the end", describe(act))
	}
	switch act := act.(type) {
	case actSignal:
		if !s.running[act.rank] {
			return fmt.Errorf("%s though it has ended", describe(act))
		}
		if act.signal == syscall.SIGTERM {
			s.termed[act.rank] = true
		}
	case actKillTree:
		if !s.stopping || s.now < s.killDue {
			return fmt.Errorf("killed at %v, due %v", s.now, s.killDue)
		}
		if s.kills++; s.kills == 1 {
			s.stuckDue = s.now + stuckTime
		}
		for rank := range s.ignores { // KILL ends them; we are told of it later
			s.ignores[rank] = false
			s.termed[rank] = true
		}
	case actReport:
		s.reports[act.exit.Rank]++
		if act.exit.Stopped != s.termed[act.exit.Rank] {
			return fmt.Errorf("%s, but TERM was sent: %v", describe(act), s.termed[act.exit.Rank])
		}
	case actFinish:
		s.finished = true
	}
	return nil
}

func (s *simulation) check(event event) error {
	streams := 0
	for _, n := range s.open {
		streams += n
	}
	switch event.(type) {
	case eventTick, eventStop, eventLost: // these look at the clock
		s.flushed = s.flushed || (s.stopping && s.now >= s.killDue+flushTime)
		s.stuck = s.kills > 0 && s.now >= s.stuckDue
	}
	over := (len(s.running) == 0 || s.stuck) && (streams == 0 || s.gone || s.flushed)
	if s.finished != over {
		return fmt.Errorf("finished: %v, with %d running, %d streams open, gone: %v", s.finished, len(s.running),
			streams, s.gone)
	}
	if _, tick := event.(eventTick); tick && s.stopping && s.now >= s.killDue && s.kills == 0 && !s.finished {
		return fmt.Errorf("no kill at %v, due %v", s.now, s.killDue)
	}
	if s.stopping {
		for rank := range s.running {
			if !s.termed[rank] {
				return fmt.Errorf("rank %d was not asked to end", rank)
			}
		}
	}
	for rank, n := range s.reports {
		if n != 1 || s.running[rank] {
			return fmt.Errorf("rank %d was reported %d times, running: %v", rank, n, s.running[rank])
		}
	}
	return nil
}

func TestCoreInAnyOrderOfEvents(t *testing.T) {
	kills := 0
	gone := 0
	stuck := 0
	for seed := range uint64(5000) {
		s := newSimulation(seed)
		fail := func(err error) {
			t.Helper()
			for _, line := range s.log {
				t.Log(line)
			}
			t.Fatalf("seed %d: %v", seed, err)
		}
		for range 5000 {
			if err := s.step(); err != nil {
				fail(err)
			}
			if s.finished {
				break
			}
		}
		if !s.finished {
			fail(fmt.Errorf("it never ends"))
		}
		if len(s.reports)+len(s.running) != len(s.open) || (len(s.running) > 0 && !s.stuck) {
			fail(fmt.Errorf("%d reports of %d ranks", len(s.reports), len(s.open)))
		}
		if acts := s.core.step(eventStop{}, s.now+time.Hour); acts != nil {
			fail(fmt.Errorf("after the end: %v", acts))
		}
		kills += min(s.kills, 1)
		if s.gone {
			gone++
		}
		if len(s.running) > 0 {
			stuck++
		}
	}
	// Without kills, lost launchers and unkillable ranks the simulation tests little.
	check.That(t, kills >= 100 && gone >= 100 && stuck >= 100,
		"%d kills, %d lost launchers and %d times unkillable ranks", kills, gone, stuck)
}
