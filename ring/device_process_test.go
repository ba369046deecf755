//go:build cgo && linux

package ring_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// deviceEnv makes the test binary a rank with a device: it makes all calls ("values"), or calls until that fails
// ("endless").
const deviceEnv = "RING_TEST_DEVICE"

// deviceChild is what such a rank does.
func deviceChild(what string) error {
	c, err := ring.Init(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	d, err := ring.NewDevice(ctx, c, c.Rank())
	if err != nil {
		return err
	}
	if what == "values" {
		if _, err := deviceValues(d, c.Rank(), c.Size()); err != nil {
			return err
		}
		return d.Close()
	}
	at, err := d.Alloc(1 << 20)
	if err != nil {
		return err
	}
	for i := 0; err == nil; i++ {
		if i == 3 {
			fmt.Println("running")
		}
		if err = d.AllReduce(ctx, 0, at, at, 1<<18, ring.Float32, ring.Sum); err == nil {
			err = d.Wait(ctx)
		}
	}
	v := verdict{Rank: -2, At: time.Now(), Text: err.Error()}
	if peer := new(ring.PeerError); errors.As(err, &peer) {
		v.Rank = peer.Rank
	}
	if err := errors.Join(d.Free(at), d.Close()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(v)
}

// start makes the ranks processes. What they have not given back they write to the folder leaks.
func (j *deviceJob) start(t *testing.T, what, leaks string) (ranks []*exec.Cmd, outputs []*bufio.Scanner) {
	for rank := range j.Size {
		cmd, out := startProcess(t, append(j.environ(rank), deviceEnv+"="+what, "STANDIN_LEAKS="+leaks))
		ranks, outputs = append(ranks, cmd), append(outputs, out)
	}
	return ranks, outputs
}

// noLeaks reads what the processes, but for those with some pids, have not given back.
func noLeaks(t *testing.T, leaks string, ranks int, but ...string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(leaks, "*"))
	if err != nil || len(files) < ranks {
		t.Errorf("%d ranks have written %v, %v", ranks, files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil || len(text) == 0 {
			t.Errorf("%q, %v", text, err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "  0 of ") && !slices.Contains(but, filepath.Base(name)) {
				t.Errorf("not given back: %s", line)
			}
		}
	}
}

// Ranks that are processes, as they are; nothing is left when they are through.
func TestDeviceProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	old := t.TempDir() // what it lacks goes through host memory
	standins(t)
	if err := ringtest.Standins("internal/nccl/testdata", old, "-DSTANDIN_VERSION=2806"); err != nil {
		t.Fatal(err)
	}
	for _, env := range []string{"RING_DEVICE=nccl", "RING_DEVICE=host", "old"} {
		t.Run(env, func(t *testing.T) {
			leaks := t.TempDir()
			j := newDeviceJob(t, 2, env)
			if env == "old" {
				j.dir, j.more = old, []string{"RING_DEVICE=nccl"}
			}
			ranks, _ := j.start(t, "values", leaks)
			for rank, cmd := range ranks {
				if err := cmd.Wait(); err != nil {
					t.Errorf("rank %d: %v", rank, err)
				}
			}
			noLeaks(t, leaks, 2)
		})
	}
}

// A rank is killed in mid-collective: every other one hears of it as soon as the Comm would, and its stream goes on.
func TestDeviceKilledRank(t *testing.T) {
	for _, env := range []string{"RING_DEVICE=nccl", "RING_DEVICE=host"} {
		for _, victim := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s/victim=%d", env, victim), func(t *testing.T) {
				leaks := t.TempDir()
				j := newDeviceJob(t, 4, env)
				ranks, outputs := j.start(t, "endless", leaks)
				for rank, out := range outputs {
					if !out.Scan() || out.Text() != "running" {
						t.Fatalf("rank %d said %q", rank, out.Text())
					}
				}
				killed := time.Now()
				if err := ranks[victim].Process.Kill(); err != nil {
					t.Fatal(err)
				}
				// What the agent does that has seen it end.
				j.Abort(ringtest.Abort{Rank: victim, Host: ringtest.Host, Cause: "killed by the test"})
				for rank, out := range outputs {
					if rank == victim {
						continue
					}
					var v verdict
					if !out.Scan() || json.Unmarshal(out.Bytes(), &v) != nil {
						t.Errorf("rank %d ended without a verdict: %q, %v", rank, out.Text(), ranks[rank].Wait())
						continue
					}
					if took := v.At.Sub(killed); v.Rank != victim || took > told {
						t.Errorf("rank %d says %q after %v", rank, v.Text, took)
					}
					if err := ranks[rank].Wait(); err != nil {
						t.Errorf("rank %d: %v", rank, err)
					}
				}
				noLeaks(t, leaks, 4, strconv.Itoa(ranks[victim].Process.Pid))
			})
		}
	}
}
