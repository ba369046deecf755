package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
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

// ranksOf are the processes that run a program.
func ranksOf(t *testing.T, program string) (pids []int) {
	t.Helper()
	entries := must.Get(os.ReadDir("/proc"))(t)
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if exe, _ := os.Readlink(filepath.Join("/proc", e.Name(), "exe")); exe == program {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Ranks are killed one after the other. The survivors continue, and new ranks replace the killed.
func TestKilledRanksAreReplaced(t *testing.T) {
	must.HaveTime(t)
	dir := t.TempDir()
	for _, name := range []string{"gorun", "elastic"} {
		from := map[string]string{"gorun": "../../cmd/gorun", "elastic": "."}[name]
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), from)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		must.Run(t, cmd)
	}
	program := filepath.Join(dir, "elastic")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "gorun"), "-np", "3", "--min-np", "1", "-H", "localhost:3",
		"--prefix", "none",
		program, "--data", digits, "--pause", "20ms")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	var complaints strings.Builder
	cmd.Stderr = &complaints
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.OK(t, err)
	lines := bufio.NewScanner(stdout)
	text := ""
	awaitLine := func(want string) {
		t.Helper()
		for lines.Scan() {
			text += lines.Text() + "\n"
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		cmd.Wait()
		t.Fatalf("no rank printed %q:\n%s%s", want, text, complaints.String())
	}
	awaitLine("size 3")
	for range 2 {
		time.Sleep(100 * time.Millisecond)
		killed := time.Now()
		must.OK(t, syscall.Kill(ranksOf(t, program)[1], syscall.SIGKILL))
		awaitLine("size 2")
		if took := time.Since(killed); took > 6*time.Second { // the goal is 2 s
			t.Errorf("the others went on after %v", took)
		} else {
			t.Logf("the others went on after %v", took)
		}
		awaitLine("size 3")
	}
	for lines.Scan() {
		text += lines.Text() + "\n"
	}
	check.OK(t, cmd.Wait(), complaints.String())
	final(t, text, 3)
	left := ranksOf(t, program)
	check.That(t, len(left) == 0, "ranks %v are left", left)
	t.Log(complaints.String())
}
