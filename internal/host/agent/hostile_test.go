package agent

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
)

// A launcher is trusted, but a faulty one must not leave ranks behind: the
// agent ends and kills its ranks. host.stop checks that none is left.

// deaf is a rank that ends only by SIGKILL, with such a child in another session.
const deaf = `trap '' TERM; setsid sh -c "trap '' TERM; while :; do sleep 1; done" & echo ready; while :; do sleep 1; done`

func TestFaultyLauncherLeavesNoRanks(t *testing.T) {
	t.Parallel()
	raw := func(h *host, bytes ...byte) { _, _ = h.stdin.Write(bytes) }
	for name, say := range map[string]func(h *host){
		"no frame":         func(h *host) { raw(h, []byte(strings.Repeat("GET / HTTP/1.1\r\n", 10))...) },
		"a frame of 4 GiB": func(h *host) { raw(h, 0xff, 0xff, 0xff, 0xff, byte(wire.TypeStop), 0, 0, 0, 0, 0, 0, 0) },
		"the end":          func(h *host) { h.stdin.Close() },
		"half a frame, then nothing": func(h *host) {
			raw(h, 0, 0, 1, 0, byte(wire.TypeStop), 0, 0, 0, 0, 0, 0, 0, '{')
			h.stdin.Close()
		},
		"no JSON": func(h *host) { _ = h.out.Send(wire.TypeStop, 0, []byte("{{{")) },
		"deep JSON": func(h *host) {
			_ = h.out.Send(wire.TypeFenced, 0, []byte(strings.Repeat("[", 1<<20)))
		},
		"what only agents say":     func(h *host) { _ = h.out.Send(wire.TypeDone, 0, nil) },
		"hello again":              func(h *host) { _ = h.out.SendMessage(wire.TypeHello, wire.Hello{}) },
		"another job":              func(h *host) { _ = h.out.SendMessage(wire.TypeJob, jobOf(1, "/bin/true")) },
		"credit for nobody":        func(h *host) { _ = h.out.SendCredit(4711, 1) },
		"credit that was not owed": func(h *host) { _ = h.out.SendCredit(wire.OutputStream(2, 1), wire.Window) },
		"input beyond its credit": func(h *host) {
			for range 2 * wire.Window / wire.MaxData {
				_ = h.out.Send(wire.TypeStdin, inputStream, make([]byte, wire.MaxData))
			}
		},
		"nonsense, then a stop with a negative grace": func(h *host) {
			_ = h.out.SendMessage(wire.TypeStart, wire.Start{})
			_ = h.out.SendMessage(wire.TypeFenced,
				wire.Fence{Name: "never", Values: map[int][]byte{-1: nil, 1 << 40: nil}})
			_ = h.out.SendMessage(wire.TypeValue, wire.Value{ID: math.MaxUint64})
			_ = h.out.SendMessage(wire.TypeAbort, wire.Abort{Rank: -9, Cause: "\x00"})
			for _, n := range []int{0, -1, 64, 4711, math.MinInt32} {
				_ = h.out.SendMessage(wire.TypeSignal, wire.Signal{Number: n})
			}
			_ = h.out.SendMessage(wire.TypeStop, wire.Stop{Grace: math.MinInt64})
		},
		"a stop without end, then a hasty one": func(h *host) {
			_ = h.out.SendMessage(wire.TypeStop, wire.Stop{Grace: math.MaxInt64 / 2})
			_ = h.out.SendMessage(wire.TypeStop, wire.Stop{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startHost(t)
			job := script(2, deaf)
			job.Stdin = []int{2}
			h.run(job)
			h.awaitOutput(2, 3)
			say(h)
			h.awaitDone()
			h.stop()
		})
	}
}

// TestInvalidJobsLeaveNothing checks that invalid jobs are refused, or end, and leave no process.
func TestInvalidJobsLeaveNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(j *wire.Job){
		"no ranks":                func(j *wire.Job) { j.Ranks = nil },
		"a rank twice":            func(j *wire.Job) { j.Ranks = append(j.Ranks, j.Ranks[0]) },
		"a program that is none":  func(j *wire.Job) { j.Ranks[0].Program = 99 },
		"program -1":              func(j *wire.Job) { j.Ranks[0].Program = -1 },
		"rank -1":                 func(j *wire.Job) { j.Ranks[0].Rank = -1 },
		"a rank beyond the size":  func(j *wire.Job) { j.Ranks[0].Rank = 1 << 31 },
		"a local rank that is no": func(j *wire.Job) { j.Ranks[0].LocalRank = -5 },
		"an env without a name":   func(j *wire.Job) { j.Env = wire.Texts{"=x", "NUL=\x00", ""} },
		"a NUL in an argument":    func(j *wire.Job) { j.Programs[0].Argv[1] = "a\x00b" },
		"input for nobody":        func(j *wire.Job) { j.Stdin = []int{99, -1} },
		"binding that is none":    func(j *wire.Job) { j.Binding.To = "\x00moon" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startHost(t)
			job := script(2, deaf)
			change(&job)
			h.greet(job)
			h.until("an answer", func() bool { return h.ready != nil || h.refuse != nil || h.err != nil })
			if h.ready != nil {
				_ = h.out.SendMessage(wire.TypeStart, wire.Start{})
				_ = h.out.SendMessage(wire.TypeStart, wire.Start{})
				_ = h.out.SendMessage(wire.TypeStop, wire.Stop{Grace: 100 * time.Millisecond})
				select {
				case <-h.gone:
				case <-time.After(2 * time.Second):
				}
			}
			h.stop()
			said := h.said()
			check.That(t, !strings.Contains(said, "panic:"), "the agent panics: %.400s", said)
		})
	}
}
