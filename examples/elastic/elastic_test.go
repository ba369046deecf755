package main

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

const digits = "../mnist/data"

var finalLine = regexp.MustCompile(`(?m)rank \d of (\d): accuracy (\S+) % after (\d+) steps$`)

// final checks the last lines of all ranks: the accuracy and steps of a job with one process.
func final(t *testing.T, out string, ranks int) {
	t.Helper()
	lines := finalLine.FindAllStringSubmatch(out, -1)
	must.That(t, len(lines) == ranks, "%d ranks of %d have ended well:\n%s", len(lines), ranks, out)
	for _, m := range lines {
		accuracy, err := strconv.ParseFloat(m[2], 64)
		if err != nil || m[1] != strconv.Itoa(ranks) || accuracy < 95.52-0.5 || m[3] != "450" {
			t.Errorf("%q: want 450 steps to 95.52 %% on all %d ranks", m[0], ranks)
		}
	}
}

func TestAlone(t *testing.T) {
	var out strings.Builder
	must.OK(t, run(context.Background(), []string{"--data", digits}, &out, ring.WithEnviron(ringtest.Lookup(nil))))
	final(t, out.String(), 1)
}

// shared is the output of several processes.
type shared struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// Processes join one after the other, and all learn what one alone does.
func TestProcessesJoin(t *testing.T) {
	must.HaveTime(t)
	w := ringtest.NewWorld(t, 1)
	out := &shared{}
	ringtest.All(t, 3, func(i int) error {
		time.Sleep(time.Duration(i) * 150 * time.Millisecond)
		m := w.Add("host" + strconv.Itoa(i/2))
		err := run(context.Background(), []string{"--data", digits, "--pause", "2ms"}, out,
			ring.WithEnviron(ringtest.Lookup(m.Environ())))
		w.Ended(m, "")
		return err
	})
	final(t, out.text.String(), 3)
	check.That(t, strings.Contains(out.text.String(), ": size 3, at step "),
		"the three were never in one epoch:\n%s", out.text.String())
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{{"--batch", "0"}, {"--passes", "-1"}, {"extra"}, {"--data", "/nowhere"}} {
		check.Error(run(context.Background(), args, &strings.Builder{})).Any(t, args, "no error")
	}
}
