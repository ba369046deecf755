package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// Horovod's own integration tests of elastic jobs, with gorun under horovodrun's name, on SSH hosts
// and on this machine by two names. SCENARIOS=10 runs each 10 times.
func TestHorovodScenarios(t *testing.T) {
	horovod := lab.Horovod(t)
	common, err := lab.FetchedHorovodSource("test/integration/elastic_common.py")
	train, err2 := lab.FetchedHorovodSource("test/integration/data/elastic_torch_main.py")
	if err := errors.Join(err, err2); err != nil {
		t.Skip(err) // in CI too, which may not reach GitHub
	}
	times := 1
	if text := os.Getenv("SCENARIOS"); text != "" {
		times = must.Get(strconv.Atoi(text))(t)
	}
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	link := filepath.Join(t.TempDir(), "horovodrun")
	must.OK(t, os.Symlink(command.Binary("gorun"), link))
	for where, hosts := range map[string][]string{"ssh": {"f1", "f2"}, "here": {"localhost", "127.0.0.1"}} {
		t.Run(where, func(t *testing.T) {
			for _, scenario := range []string{"hosts_added_and_removed", "single_rank_failure",
				"fault_tolerance_without_scaling", "all_ranks_failure",
				"all_hosts_blacklisted", "min_hosts_timeout", "reset_limit",
				"resurrecting_blacklisted_hosts_exponential_backoff"} {
				t.Run(scenario, func(t *testing.T) {
					for range times {
						testHorovodScenario(t, c, horovod, common, train, link, hosts[0], hosts[1], "test_"+scenario)
					}
				})
			}
		})
	}
}

func testHorovodScenario(t *testing.T, c *lab.Cluster, horovod string, args ...string) {
	t.Helper()
	began := time.Now()
	env := []string{horovod, "OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1"}
	r := command.StartWithin(t, c, 4*time.Minute, lab.Python, env,
		append([]string{testdata("elastic/scenarios.py")}, args...)...)
	if code := r.Wait(); code != 0 {
		t.Errorf("exit code %d after %v\n%s%s", code, time.Since(began), golden.Clip(r.Out.String()),
			golden.Clip(r.Err.String()))
	}
	r.NothingLeft(30 * time.Second)
}
