package agent

import (
	"fmt"
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
		{"ranks that KILL does not end, and their output, are awaited for 2 s",
			[]at{stopAt(0, 1), {2.9, eventTick{}}, {3, eventTick{}}},
			stop + ", 1s killtree, 2.9s killtree, 3s killtree, 3s finish"},
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
				"signal 9 stopped true aborted, 6.1s report 5 code 0 signal 9 stopped true aborted, 6.1s finish"},
		{"a rank that ends of what has failed here is no reason",
			[]at{exited(4, 1, 0.5), {1, eventFailing{}}, {1, eventExited{rank: 5, code: 1, early: true}}},
			"500ms report 4 code 1 signal 0 stopped false, 1s fail, 1s abandon, 1s TERM 5, 1s CONT 5, " +
				"1s report 5 code 1 signal 0 stopped false aborted, 1s finish"},
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
			_, did := play(tc.events)
			check.Equal(t, strings.Join(did, ", "), tc.did, "did")
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
