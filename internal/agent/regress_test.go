package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/wire"
)

func TestServeReportsRanksThatCannotStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "prog")
	if err := os.WriteFile(path, []byte("\x7fELF and no more"), 0o700); err != nil {
		t.Fatal(err)
	}
	h := startHost(t)
	h.run(jobOf(3, path))
	exits := h.finish()
	for rank := 2; rank < 5; rank++ {
		if e := exits[rank]; e.Code != 126 || e.Failed != "start "+path+": exec format error" || e.Stopped {
			t.Errorf("rank %d: %+v", rank, e)
		}
	}
}

// A child of the rank that never stops writing must not keep the pipe open for ever
// just because credit comes back slowly, so that the pipe is full at every look.
func TestPumpCutsAPipeThatNeverFallsSilent(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	p, into, s, ended := startPump(t, pumpBuffer)
	go func() {
		for {
			if _, err := into.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	}()
	p.rankEnded()
	until(t, "a whole window", func() bool { return s.len() == wire.Window })
	for stop := time.Now().Add(drainTime + 5*time.Second); time.Now().Before(stop); {
		select {
		case <-ended:
			return
		case <-time.After(5 * time.Millisecond):
			if err := p.credit.Add(1 << 16); err != nil {
				t.Fatal(err)
			}
			over := false // the pipe may be cut with credit left
			until(t, "the credit's use", func() bool {
				select {
				case <-ended:
					over = true
				default:
				}
				return over || s.len()%(1<<16) == 0
			})
			if over {
				return
			}
		}
	}
	t.Errorf("still reading %v after the rank's end", drainTime+5*time.Second)
}

// Of a script with DOS line ends the kernel looks for an interpreter "/bin/sh\r".
func TestInterpreterWithACarriageReturn(t *testing.T) {
	dir := place(t, map[string]string{"dos": "+#!/bin/sh\r\necho\r\n"})
	if err := checkProgram(dir + "/dos"); err == nil {
		t.Error("a script that cannot start was let through")
	}
}

// When the launcher is gone ranks get their grace; what they print meanwhile goes
// nowhere, but must not kill them.
func TestRanksMayPrintAfterTheLauncher(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	dir := t.TempDir()
	job := script(1, `trap 'echo saving; sleep 0.2; echo saving; echo saved >checkpoint; exit 0' TERM; echo ready; while :; do sleep 0.05; done`)
	job.Programs[0].Wdir, job.Grace = []byte(dir), 5*time.Second
	h.run(job)
	h.until("the rank", func() bool { return len(h.output[wire.OutputStream(2, 1)]) > 0 })
	h.stdin.Close()
	<-h.gone
	if _, err := os.Stat(dir + "/checkpoint"); err != nil {
		t.Error("killed by SIGPIPE within the grace")
	}
}

// A launcher that stands still takes no frames, so a rank's word to it is stuck. The agent ends all the same when its lease is over, and says why.
func TestServeEndsWhileWordsToItsLauncherAreStuck(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	h := startHost(t)
	still := make(chan struct{})
	defer close(still)
	h.mu.Lock()
	h.other = func(f wire.Frame) {
		if f.Type == wire.TypePut {
			<-still
		}
	}
	h.mu.Unlock()
	value := strings.Repeat("v", 60<<10) // two are more than a pipe holds
	job := jobOf(1, "/proc/self/exe", askWord, "GLOO-PUT /s/rank_0 "+value, "GLOO-PUT /s/rank_1 "+value, "GLOO-PUT /s/rank_2 "+value)
	job.Epoch, job.Elastic = 1, &wire.Elastic{Slots: 1, LocalSize: 1, Nodes: 1, Lease: time.Second, Parting: 100 * time.Millisecond}
	h.run(job)
	until(t, "the agent's last word", func() bool { return strings.Contains(h.said(), "no word from gorun") })
}
