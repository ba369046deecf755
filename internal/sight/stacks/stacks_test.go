package stacks

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/sight/flight"
	"github.com/gorun/gorun/internal/sight/ras"
	"github.com/gorun/gorun/internal/sight/recorder"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// job returns ranks of which all wait in call 7, which the ranks in late have not reached.
func job(size int, late map[int]bool) (ranks []Rank) {
	for rank := range size {
		c := recorder.Call{
			Comm:   1,
			Number: 7,
			Kind:   4,
			Bytes:  64,
			Name:   "grad",
			Took:   time.Duration(rank+1) * time.Second,
			Began:  time.Duration(rank+1) * time.Second,
		}
		frames := []Frame{{Func: "wait", File: "/lib/ring.py", Line: 3},
			{Func: "step", File: "/home/u/train.py", Line: 20}, {Func: "<module>", File: "/home/u/train.py", Line: 40}}
		if late[rank] {
			c.Number = 6
			c.Over = true
			frames = []Frame{{Func: "load", File: "/home/u/data.py", Line: rank}, frames[2]}
		}
		ranks = append(ranks, Rank{
			Rank: rank,
			Host: "f1",
			Record: &recorder.Snapshot{
				Rank:   rank,
				Size:   size,
				Joined: true,
				Comms:  []recorder.Comm{{ID: 1, Size: size, Calls: []recorder.Call{c}}},
			},
			Processes: []Process{{PID: 100 + rank, Name: "python train.py", State: "S", By: "faulthandler",
				Threads: []Thread{{Frames: frames}}}},
		})
	}
	return ranks
}

func TestMissingRankIsNamedFirst(t *testing.T) {
	text := View{Size: 8, Lines: 60}.Text(job(8, map[int]bool{3: true}))
	want := `rank 3 has not come to allreduce of "grad", call 7, 64 bytes: 7 ranks (0-2,4-7) have waited for 8s
  rank 3 on f1, pid 103: its last was allreduce of "grad", call 6, 64 bytes, which ended an unknown time ago

python train.py  <- 8 ranks (0-7)
<module> (u/train.py:40)
- load (u/data.py:3)  <- rank 3
- step (u/train.py:20)  <- 7 ranks (0-2,4-7)
  wait (lib/ring.py:3)
`
	check.Equal(t, text, want)
}

func TestManyRanksFitOneScreen(t *testing.T) {
	late := map[int]bool{}
	for rank := 0; rank < 2000; rank += 7 {
		late[rank] = true
	}
	text := View{Size: 2000, Lines: 60}.Text(job(2000, late))
	check.That(t, strings.Count(text, "\n") <= 60, "%d lines", strings.Count(text, "\n"))
	check.That(t, strings.HasPrefix(text, "286 ranks (0,7,14,") && strings.Contains(text, "wait (lib/ring.py:3)"),
		"got\n%s", text)
}

func TestTensorThatOneRankLacks(t *testing.T) {
	ranks := job(4, nil)
	for i := range ranks {
		r := ranks[i].Record
		r.Comms[0].Calls[0].Over = true
		if i != 2 {
			r.Tensors = []recorder.Call{{Comm: 1, Kind: 4, Name: "loss", Began: time.Second}}
			r.Pending = 1
		}
	}
	waits := Waits(ranks, 4)
	check.That(t, len(waits) == 1 && fmt.Sprint(waits[0].Missing) == "[2]" && waits[0].Call.Name == "loss",
		"%+v", waits)
	ranks[2].Record.Pending = 70 // more tensors than a record shows: it may have this one
	waits = Waits(ranks, 4)
	check.That(t, len(waits) == 0, "%+v", waits)
}

func TestRankThatHasNotJoined(t *testing.T) {
	ranks := job(4, nil)
	for i := range ranks {
		ranks[i].Record.Joined = false
		ranks[i].Record.Comms = nil
	}
	ranks[1].Record = nil
	text := View{Size: 4}.Text(ranks)
	check.That(t, strings.HasPrefix(text, "rank 1 has not joined the job: 3 ranks (0,2-3) have waited for "),
		"%v", text)
}

// Text from a host is printed to a terminal, and no part of it begins a line, obeys or poses as
// gorun's.
func TestTextsOfHostsForgeNoLines(t *testing.T) {
	const forged = "x\nrank 9 has not come\x1b[2J\r\x07\u2028"
	frames := []Frame{{Func: forged, File: "/" + forged, Line: 3}}
	for name, r := range map[string]Rank{
		"name":     {Processes: []Process{{Name: forged}}},
		"state":    {Processes: []Process{{Name: "a", State: forged}}},
		"waits":    {Processes: []Process{{Name: "a", Waits: forged}}},
		"kernel":   {Processes: []Process{{Name: "a", Kernel: forged}}},
		"unknown":  {Processes: []Process{{Name: "a", Unknown: forged}}},
		"hint":     {Processes: []Process{{Name: "a", Hint: "rank 9 has not come"}}},
		"thread":   {Processes: []Process{{Name: "a", Threads: []Thread{{Name: forged, Frames: frames}}}}},
		"error":    {Error: forged},
		"recorder": {NoFlight: forged},
		"ras":      {RAS: &ras.Status{Version: forged, Lines: []string{forged}, Comms: []ras.Comm{{Hash: forged}}}},
		"flight": {Flight: &flight.Dump{Version: forged, Groups: []flight.Group{{Name: forged, Desc: forged,
			Calls: []flight.Call{{Number: 1, Kind: forged, Shape: forged, State: forged, Where: forged}}}}}},
		"call": {Record: &recorder.Snapshot{Size: 2, Joined: true, Comms: []recorder.Comm{{ID: 1, Size: 2,
			Calls: []recorder.Call{{Comm: 1, Number: 1, Kind: 4, Name: forged}}}}}},
		"tensor": {Record: &recorder.Snapshot{Size: 2, Tensors: []recorder.Call{{Kind: 4, Name: forged}}}},
	} {
		ranks := []Rank{r, {Rank: 1, Record: &recorder.Snapshot{Size: 2, Joined: true}}}
		for what, text := range map[string]string{"all": View{Size: 2, All: true}.Text(ranks), "alone": Alone(r, 100)} {
			check.That(t, !strings.ContainsAny(text, "\x1b\x07\r\u2028") && !strings.Contains("\n"+text, "\nrank 9"),
				"%s, %s: %q", name, what, text)
		}
	}
}

func TestHangIsReportedOnce(t *testing.T) {
	w := Watch{Limit: 10 * time.Second}
	now := time.Unix(1000, 0)
	sample := func(seconds int, printed int, pulses ...Pulse) bool {
		return w.Sample(now.Add(time.Duration(seconds)*time.Second), pulses,
			now.Add(time.Duration(printed)*time.Second))
	}
	waits := func(cpu time.Duration) Pulse {
		return Pulse{
			Rank:  0,
			CPU:   cpu,
			Calls: 5,
			Waits: true,
		}
	}
	steps := []struct {
		at, printed int
		pulse       Pulse
		want        bool
	}{
		{0, 0, waits(0), false},
		{5, 0, waits(5 * time.Second), false},
		{10, 0, waits(10 * time.Second), true}, // spinning is no progress while ranks wait
		{11, 0, waits(11 * time.Second), false},
		{12, 12, waits(12 * time.Second), false}, // output is
		{21, 12, waits(13 * time.Second), false},
		{22, 12, waits(14 * time.Second), true},
		{23, 12, Pulse{Calls: 6, CPU: 14 * time.Second}, false},
		{33, 12, Pulse{Calls: 6, CPU: 15 * time.Second}, false}, // nobody waits, and a rank computes
		{43, 12, Pulse{Calls: 6, CPU: 15 * time.Second}, true},
	}
	for _, s := range steps {
		check.Equal(t, sample(s.at, s.printed, s.pulse), s.want, "at", s.at, "s")
	}
}

func TestOneRankAlone(t *testing.T) {
	r := Rank{
		Rank: 3,
		Host: "f1",
		Record: &recorder.Snapshot{
			Joined:  true,
			Tensors: []recorder.Call{{Kind: 4, Name: "loss", Bytes: 8, Began: 3 * time.Second}},
			Pending: 1,
			Comms: []recorder.Comm{{ID: 1, Size: 4,
				Calls: []recorder.Call{{Number: 7, Kind: 1, Began: 5 * time.Second, Took: time.Second, Over: true}}}},
		},
		Processes: []Process{{PID: 7, Name: "train\x1b", State: "S", Waits: "in futex",
			Threads: []Thread{{Frames: []Frame{{Func: "wait"}, {Func: "main"}}}}}},
	}
	want := "its last call ended 4s ago: barrier, call 7\nit waits for allreduce of \"loss\", 8 bytes, for " +
		"3s\ntrain?  <- rank 3\nmain\nwait\n= in futex\n"
	check.Equal(t, Alone(r, 12), want)
	got := Alone(r, 4)
	check.That(t, strings.Count(got, "\n") <= 4 && strings.HasPrefix(got, "its last call"), "in 4 lines: %s", got)
}

// Stall reports of ring lead to a look at the ranks, and other notes of ranks do not.
func TestStallReportsAreNotLookedAtOften(t *testing.T) {
	var s Stalls
	now := time.Now()
	for after, want := range []bool{true, false, false} {
		check.Equal(t, s.Due(now.Add(time.Duration(after)*time.Minute)), want, "after", after, "minutes")
	}
	check.That(t, s.Due(now.Add(time.Hour)), "no look after an hour")
}

// enqueued is a rank whose flight recorder has calls of one process group, of which the last goes
// on if waits.
func enqueued(rank int, kind string, last int64, waits bool) Rank {
	g := flight.Group{
		Name:  "0",
		Desc:  "default_pg",
		Ranks: "[0, 1, 2, 3]",
		Last:  last,
	}
	for n := range last {
		g.Calls = append(g.Calls, flight.Call{
			Number: n + 1,
			Kind:   "nccl:all_reduce",
			Shape:  "8 Float",
			State:  "completed",
			Began:  time.Duration(10-n) * time.Second,
			Where:  "step (x/train.py:7)",
		})
	}
	if waits {
		g.Calls[last-1].Kind = kind
		g.Calls[last-1].State = "started"
	}
	return Rank{Rank: rank, Host: "f1", Flight: &flight.Dump{Version: "2.10", Groups: []flight.Group{g}}}
}

func TestFlightRecordersNameTheRankThatHasNotCome(t *testing.T) {
	for name, c := range map[string]struct {
		ranks []Rank
		want  []string
	}{
		"one is missing": {[]Rank{enqueued(0, "nccl:all_reduce", 3, true), enqueued(1, "nccl:all_reduce", 3, true),
			enqueued(2, "", 2, false), enqueued(3, "nccl:all_reduce", 3, true)},
			[]string{"rank 2 has not come to all_reduce of 8 Float by nccl, call 3 of process group default_pg: 3 " +
				"ranks (0-1,3) have waited for 8s",
				"rank 2 on f1: its last was all_reduce of 8 Float by nccl, call 2 of default_pg, enqueued 9s ago and " +
					"completed, in step (x/train.py:7)"}},
		"one calls another": {[]Rank{enqueued(0, "nccl:all_reduce", 3, true), enqueued(1, "nccl:all_gather", 3, true),
			enqueued(2, "nccl:all_reduce", 3, true)},
			[]string{"rank 1 has called all_gather of 8 Float by nccl as call 3, others all_reduce of 8 Float by " +
				"nccl, call 3 of process group default_pg: 2 ranks (0,2) have waited for 8s"}},
		"all wait": {[]Rank{enqueued(0, "nccl:all_reduce", 3, true), enqueued(1, "nccl:all_reduce", 3, true)}, nil},
		"one is ahead": {[]Rank{enqueued(0, "nccl:all_reduce", 9, false), enqueued(1, "nccl:all_reduce", 3, true)},
			nil},
		"no dump": {[]Rank{enqueued(0, "nccl:all_reduce", 3, true), {Rank: 1, NoFlight: "why"}},
			[]string{"PyTorch's flight recorder of rank 1 did not answer: why"}},
	} {
		text := View{Size: len(c.ranks)}.Text(c.ranks)
		for _, want := range c.want {
			check.That(t, strings.Contains(text, want+"\n"), "%s: missing %q in\n%s", name, want, text)
		}
		check.That(t, c.want != nil || !strings.Contains(text, "not come") && !strings.Contains(text, "others"),
			"%s:\n%s", name, text)
	}
}

// NCCL numbers ranks by communicator; the job's number is known by a process id that only one rank
// has.
func TestRASNamesRanksOfTheJob(t *testing.T) {
	comm := ras.Comm{Size: 3, Ranks: []ras.Rank{{Rank: 0, PID: 11, Counts: map[string]uint64{"AllReduce": 3}},
		{Rank: 1, PID: 12, Counts: map[string]uint64{"AllReduce": 2}}},
		Missing: []ras.Rank{{Rank: 2, PID: -1}}}
	ranks := []Rank{{Rank: 4, Processes: []Process{{PID: 11, Name: "p"}}, RAS: &ras.Status{Comms: []ras.Comm{comm}}},
		{Rank: 7, Processes: []Process{{PID: 12, Name: "p"}}}}
	text := View{Size: 8}.Text(ranks)
	for _, want := range []string{"NCCL RAS: rank 7 of a communicator of 3 has launched 2 collectives of AllReduce, " +
		"others 3\n", "NCCL RAS: rank 2 of a communicator of 3 has not answered\n"} {
		check.That(t, strings.Contains(text, want), "missing %q in\n%s", want, text)
	}
}

// The report of one host takes bounded time and memory, even if each of its ranks reports as much
// as it may and nothing twice. Looking through all functions for each new one took hours.
func TestFloodOfOneHost(t *testing.T) {
	const size = 64
	n := 0
	var ranks []Rank
	for rank := range size {
		r := Rank{Rank: rank, RAS: &ras.Status{Comms: []ras.Comm{{}}}, Record: &recorder.Snapshot{Joined: true}}
		for pid := range MaxProcesses {
			p := Process{PID: 1 + pid}
			for range MaxThreads {
				thread := Thread{}
				for range 8 {
					n++
					thread.Frames = append(thread.Frames, Frame{Func: strconv.Itoa(n)})
				}
				p.Threads = append(p.Threads, thread)
			}
			r.Processes = append(r.Processes, p)
		}
		for range 100 {
			n++
			member := ras.Rank{Counts: map[string]uint64{"AllReduce": uint64(n), "AllGather": uint64(n)}}
			r.RAS.Comms[0].Ranks = append(r.RAS.Comms[0].Ranks, member)
		}
		for lane := range uint64(8) {
			n++
			at := recorder.Call{Comm: lane, Number: uint64(n), Kind: 4}
			r.Record.Comms = append(r.Record.Comms, recorder.Comm{ID: lane, Calls: []recorder.Call{at}})
		}
		r.Trim()
		functions := 0
		for _, p := range r.Processes {
			for _, thread := range p.Threads {
				functions += len(thread.Frames)
			}
		}
		check.Equal(t, functions, MaxCalls)
		check.Equal(t, r.RAS != nil, rank == 0)
		ranks = append(ranks, r)
	}
	for range 4 * maxOdd {
		n++
		member := ras.Rank{Counts: map[string]uint64{"AllReduce": uint64(n)}}
		ranks[0].RAS.Comms[0].Ranks = append(ranks[0].RAS.Comms[0].Ranks, member)
	}
	check.Equal(t, len(commLines(&ranks[0].RAS.Comms[0], ranks)), maxOdd)
	text := View{Size: size, All: true}.Text(ranks)
	lines := strings.Count(text, "\n")
	check.That(t, lines > maxLines/2 && lines <= maxLines, "%d lines", lines)
	for number := range uint64(2 * maxCalls) {
		at := recorder.Call{Comm: 1, Number: number, Kind: 4}
		at.Took = time.Duration(number)
		ranks = append(ranks, Rank{Record: &recorder.Snapshot{Joined: true, Comms: []recorder.Comm{{ID: 1,
			Calls: []recorder.Call{at}}}}})
	}
	check.Equal(t, len(calls(ranks)), maxCalls)
}

// Whatever a host tells of PyTorch's process groups, of each rank they have one view, and the
// missing ranks of few calls are kept.
func TestFlightsOfOneHost(t *testing.T) {
	const size = 256
	const groups = 64
	n := int64(0)
	one := make([]Rank, size)
	many := make([]Rank, size)
	for rank := range size {
		one[rank] = Rank{Rank: rank, Flight: &flight.Dump{}}
		many[rank] = Rank{Rank: rank, Flight: &flight.Dump{}}
		for i := range groups {
			n++
			g := flight.Group{Name: "g", Last: n, Calls: []flight.Call{{Number: n, Kind: "k", State: "started"}}}
			one[rank].Flight.Groups = append(one[rank].Flight.Groups, g)
			g.Name = strconv.Itoa(i)
			many[rank].Flight.Groups = append(many[rank].Flight.Groups, g)
		}
	}
	check.Equal(t, len(flights(one)), size-1)
	waits := flights(many)
	check.Equal(t, len(waits), maxCalls-maxCalls/size) // of each group, no rank lacks in the last call
	for _, w := range waits {
		must.That(t, len(w.Waiting) == 1 && len(w.Missing) < size, "%d ranks wait for %d", len(w.Waiting),
			len(w.Missing))
	}
}
