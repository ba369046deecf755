package launcher

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
)

// resultsIn reads the results below dir, by the name of the rank's folder. Nothing else may be
// there.
func resultsIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		found[filepath.Base(filepath.Dir(path))] = string(text)
		check.That(t, entry.Name() == "result", "%s is there", path)
		return err
	})
	check.OK(t, err)
	return found
}

// wantResults checks the results below dir.
func wantResults(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	got := resultsIn(t, dir)
	check.That(t, maps.Equal(got, want), "results %.300q, want %.300q", got, want)
}

// A result above the limit is an error, uses no disk and leaves no older file behind; the job goes
// on.
func TestTooLargeResultIsLost(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, errors.Join(os.Mkdir(filepath.Join(dir, "rank.1"), 0o700),
		os.WriteFile(filepath.Join(dir, "rank.1", "result"), []byte("old"), 0o600)))
	talk := func(a *fake.Agent) error {
		return errors.Join(a.Print(0, wire.Result, "0123456789"), flood(a, 1, wire.Result, 2*wire.Window), succeed(a))
	}
	r, err := runOn(t, []*fake.Machine{serving(talk)}, func(o *Options) {
		o.ResultDir = dir
		o.ResultLimit = 10
	})
	succeeds(t, r.Result, err)
	check.That(t, r.Output != nil && strings.Contains(r.Output.Error(),
		"the result of rank 1 is lost: it has more than 10 bytes; raise --result-limit"), "%v", r.Output)
	wantResults(t, dir, map[string]string{"rank.0": "0123456789"})
	_, err = os.Stat(filepath.Join(dir, "rank.1"))
	check.OK(t, err)
}

// Results of spawned ranks have no place among those of the job, and take none on its disk until it
// ends: a host may spawn tens of thousands of ranks.
func TestSpawnedRanksHaveNoResults(t *testing.T) {
	dir := t.TempDir()
	var kept []string
	talk := func(a *fake.Agent) error {
		rank, err := spawnOne(a)
		if err != nil {
			return err
		}
		if err := errors.Join(a.Print(0, wire.Result, "0123456789"), flood(a, rank, wire.Result, 2*wire.Window),
			a.Exit(wire.Exit{Rank: rank})); err != nil {
			return err
		}
		time.Sleep(time.Second / 2)
		kept, err = filepath.Glob(filepath.Join(dir, ".process.*"))
		return errors.Join(err, succeed(a))
	}
	r, err := runSpawning(t, []*fake.Machine{serving(talk)}, 1, func(o *Options) {
		o.ResultDir = dir
		o.ResultLimit = 1 << 30
	})
	succeeds(t, r.Result, errors.Join(err, r.Output))
	check.Equal(t, fmt.Sprint(kept), fmt.Sprint([]string{filepath.Join(dir, ".process.0")}))
}

// In an elastic job a result belongs to the rank that its process is at the end. Those of earlier
// processes are removed. Ranks that ask for no epoch keep the numbers with which they were started.
func TestResultsOfElasticJobs(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(a *fake.Agent, rank int) error // after the result is written
		want map[string]string
	}{
		"epochs": {func(a *fake.Agent, rank int) error {
			if rank > 0 || a.Job.Epoch > 1 {
				return a.Live(time.Now().Add(time.Minute))
			}
			if err := a.Join(); err != nil {
				return err
			}
			time.Sleep(time.Second)
			return a.Finish(wire.Exit{Code: 1})
		}, map[string]string{"rank.0": "rank 1 of epoch 1", "rank.1": "rank 1 of epoch 3"}},
		"no epochs": {func(a *fake.Agent, _ int) error { return a.Finish(wire.Exit{}) },
			map[string]string{"rank.0": "rank 0 of epoch 1", "rank.1": "rank 1 of epoch 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := serving(func(a *fake.Agent) error {
				rank := a.Job.Ranks[0].Rank
				return errors.Join(a.Print(rank, wire.Result, fmt.Sprintf("rank %d of epoch %d", rank, a.Job.Epoch)),
					tc.then(a, rank))
			})
			dir := t.TempDir()
			r, err := elasticOn(t, m, func(o *Options) {
				o.ResultDir = dir
				o.ResultLimit = 100
			})
			succeeds(t, r, errors.Join(err, r.Output))
			wantResults(t, dir, tc.want)
		})
	}
}
