//go:build cgo && linux

package ring_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// useDevice is the role of a rank with a device: it makes all calls ("values"), or calls until that
// fails ("endless").
func useDevice(told string) error {
	c, err := ring.Init(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	d, err := ring.NewDevice(ctx, c, c.Rank())
	if err != nil {
		return err
	}
	if told == "values" {
		if err := deviceValues(d, c.Rank(), c.Size()); err != nil {
			return err
		}
		return d.Close()
	}
	at, err := d.Alloc(1 << 20)
	if err != nil {
		return err
	}
	err = untilItFails(func() error {
		if err := d.AllReduce(ctx, 0, at, at, 1<<18, ring.Float32, ring.Sum); err != nil {
			return err
		}
		return d.Wait(ctx)
	})
	return errors.Join(err, d.Free(at), d.Close())
}

// start makes the ranks processes. What they have not given back they write to the folder leaks.
func (j *deviceJob) start(t *testing.T, what, leaks string) (ranks []*lab.Program) {
	for rank := range j.Size {
		ranks = append(ranks, start(t, append(j.environ(rank), "STANDIN_LEAKS="+leaks), "device "+what))
	}
	return ranks
}

// noLeaks reads what the processes, but for those with some pids, have not given back.
func noLeaks(t *testing.T, leaks string, ranks int, but ...string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(leaks, "*"))
	check.That(t, err == nil && len(files) >= ranks, "%d ranks have written %v, %v", ranks, files, err)
	for _, name := range files {
		text, err := os.ReadFile(name)
		check.That(t, err == nil && len(text) != 0, "%q, %v", text, err)
		for line := range strings.Lines(string(text)) {
			check.That(t, strings.HasPrefix(line, "  0 of ") || slices.Contains(but, filepath.Base(name)),
				"not given back: %s", line)
		}
	}
}

// Ranks that are processes, as they are; nothing is left when they are through.
func TestDeviceProcesses(t *testing.T) {
	must.HaveTime(t)
	old := t.TempDir() // what it lacks goes through host memory
	standins(t)
	must.OK(t, ringtest.Standins("internal/nccl/testdata", old, "-DSTANDIN_VERSION=2806"))
	for _, env := range []string{"RING_DEVICE=nccl", "RING_DEVICE=host", "old"} {
		t.Run(env, func(t *testing.T) {
			leaks := t.TempDir()
			j := newDeviceJob(t, 2, env)
			if env == "old" {
				j.dir = old
				j.more = []string{"RING_DEVICE=nccl"}
			}
			ranks := j.start(t, "values", leaks)
			for rank, cmd := range ranks {
				check.OK(t, cmd.Wait(), "rank", rank)
			}
			noLeaks(t, leaks, 2)
		})
	}
}

// A rank is killed in mid-collective: every other one hears of it as soon as the Comm would, and
// its stream goes on.
func TestDeviceKilledRank(t *testing.T) {
	for _, env := range []string{"RING_DEVICE=nccl", "RING_DEVICE=host"} {
		for _, victim := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s/victim=%d", env, victim), func(t *testing.T) {
				leaks := t.TempDir()
				j := newDeviceJob(t, 4, env)
				ranks := j.start(t, "endless", leaks)
				allRunning(t, ranks)
				// The agent that has seen it end aborts the job.
				kill(t, ranks, victim, failureDeadline, func() {
					j.Abort(ringtest.Abort{Rank: victim, Host: ringtest.Host, Cause: "killed by the test"})
				})
				for rank, cmd := range ranks {
					if rank != victim {
						check.OK(t, cmd.Wait(), "rank", rank)
					}
				}
				noLeaks(t, leaks, 4, strconv.Itoa(ranks[victim].Process.Pid))
			})
		}
	}
}
