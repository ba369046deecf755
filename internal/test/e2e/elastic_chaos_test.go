package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// learned matches the last line of examples/elastic.
var learned = regexp.MustCompile(`(?m)rank \d+ of \d+: accuracy (\S+) % after (\d+) steps$`)

// Ranks and agents get signals, and hosts join, leave and vanish, at random during a training. It
// ends with the accuracy and the number of steps of an undisturbed one. ELASTIC_CHAOS=10m runs for
// 10 minutes, ELASTIC_SEED=7 repeats an order.
func testElasticChaos(t *testing.T) {
	span := 25 * time.Second
	if text := os.Getenv("ELASTIC_CHAOS"); text != "" {
		span = must.Get(time.ParseDuration(text))(t)
	}
	c := lab.MustNamespaces(t, lab.Specs(3)...)
	train := learn(t, span)
	h := &havoc{
		t:      t,
		c:      c,
		dice:   seeded(t),
		done:   map[string]int{},
		list:   filepath.Join(t.TempDir(), "hosts"),
		vanish: span > time.Minute,
	}
	h.say("f1:2\nf2:2\n")
	began := time.Now()
	h.run = command.StartWithin(t, c, 2*span+time.Minute, command.Binary("gorun"), nil,
		append([]string{"-np", "4", "--min-np", "1", "--max-np", "6",
			"--host-discovery-script", "cat " + h.list, "--blacklist-cooldown-range", "1,2"}, train.argv...)...)
	awaitOutput(t, h.run, "epoch 1:")
	for time.Since(began) < span && !strings.Contains(h.run.Err.String(), "the job ended") {
		h.wreak()
	}
	h.say("f1:2\nf2:2\nf3:2\n")
	h.run.Want(0)
	t.Logf("%v in %v; %d epochs", h.done, time.Since(began).Round(time.Second),
		strings.Count(h.run.Err.String(), "gorun: epoch "))
	train.judge(t, h.run)
}

// seeded returns random numbers of ELASTIC_SEED, or of a new seed, which it prints.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("ELASTIC_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("ELASTIC_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// lesson is a training of examples/elastic, and the last line of one rank alone.
type lesson struct {
	argv []string
	want []string // line, accuracy, steps
}

// learn returns a training that takes at least span.
func learn(t *testing.T, span time.Duration) lesson {
	t.Helper()
	const pause = 50 * time.Millisecond
	passes := strconv.Itoa(max(int(span/pause/15), 10)) // of 15 steps
	argv := []string{command.Binary("elastic"), "--data", root + "/examples/mnist/data", "--passes", passes}
	want := learned.FindStringSubmatch(command.Start(t, nil,
		append([]string{"-np", "1"}, argv...)...).Want(0).Out.String())
	must.That(t, want != nil, "one rank has learned nothing")
	return lesson{append(argv, "--pause", pause.String()), want}
}

// judge checks that a job that has ended learned as much in as many steps as one rank alone, and
// that nothing is left.
func (l lesson) judge(t *testing.T, r *command.Run) {
	t.Helper()
	ends := learned.FindAllStringSubmatch(r.Out.String(), -1)
	reference, _ := strconv.ParseFloat(l.want[1], 64)
	for _, end := range ends {
		if got, err := strconv.ParseFloat(end[1], 64); err != nil || got < reference-0.5 || got > reference+0.5 ||
			end[2] != l.want[2] {
			t.Errorf("%q, and one rank alone %q", end[0], l.want[0])
		}
	}
	check.That(t, len(ends) != 0,
		"no rank has come to an end:\n%s\n%s", golden.Clip(r.Out.String()), golden.Clip(r.Err.String()))
	r.NothingLeft(30 * time.Second)
}

func awaitOutput(t *testing.T, r *command.Run, text string) {
	t.Helper()
	must.Until(t, text, func() bool { return strings.Contains(r.Out.String(), text) })
}

// havoc harms a job.
type havoc struct {
	t      *testing.T
	c      *lab.Cluster
	run    *command.Run
	dice   *rand.Rand
	list   string
	vanish bool
	cutAt  time.Time      // when f3 was cut off; zero: it is connected
	done   map[string]int // harms by kind
}

// say sets what the discovery script prints from now on.
func (h *havoc) say(hosts string) {
	h.t.Helper()
	must.OK(h.t, os.WriteFile(h.list+".new", []byte(hosts), 0o600))
	must.OK(h.t, os.Rename(h.list+".new", h.list))
}

// wreak does one harm, some seconds after the last.
func (h *havoc) wreak() {
	time.Sleep(time.Second + time.Duration(h.dice.IntN(2500))*time.Millisecond)
	if !h.cutAt.IsZero() && time.Since(h.cutAt) > 20*time.Second {
		h.cutAt = time.Time{}
		must.OK(h.t, h.c.Restore(h.t.Context(), "f3"))
	}
	switch n := h.dice.IntN(10); {
	case n < 4:
		h.done["hosts"]++
		h.say("f1:2\n" + h.maybe("f2", 2) + h.maybe("f3", 2))
	case n == 9 && h.vanish && h.cutAt.IsZero():
		h.done["vanished"]++
		h.cutAt = time.Now()
		must.OK(h.t, h.c.Cut(h.t.Context(), "f3"))
	default:
		h.strike()
	}
}

// strike signals a rank or its agent. It spares the last ranks: with them the state would be lost,
// and another may be about to get it.
func (h *havoc) strike() {
	var ranks []int
	for _, pid := range lab.Processes(h.run.Mark) {
		if strings.HasPrefix(command.ProcFile(pid, "cmdline"), command.Binary("elastic")) {
			ranks = append(ranks, pid)
		}
	}
	if len(ranks) < 3 {
		h.done["spared"]++
		return
	}
	pid := ranks[h.dice.IntN(len(ranks))]
	who := "rank"
	signals := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGSEGV, syscall.SIGABRT, syscall.SIGSTOP}
	if agent := serving(pid); agent != 0 && h.dice.IntN(3) == 0 {
		pid = agent
		who = "agent"
		signals = signals[:4] // one that stands still loses its host: testElasticAgentStandsStill
	}
	signal := signals[h.dice.IntN(len(signals))]
	h.done[who+" "+signal.String()]++
	_ = syscall.Kill(pid, signal) // it may have ended
	if signal == syscall.SIGSTOP {
		time.AfterFunc(time.Duration(h.dice.IntN(12000))*time.Millisecond, func() {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		})
	}
}

// maybe returns a line for a host, with some slots or none.
func (h *havoc) maybe(host string, most int) string {
	if n := h.dice.IntN(most + 1); n > 0 {
		return fmt.Sprintf("%s:%d\n", host, n)
	}
	return ""
}
