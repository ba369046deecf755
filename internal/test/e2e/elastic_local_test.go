package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"

	"github.com/gorun/gorun/internal/test/command"
)

// New ranks get their own files and the prefix that the user chose; files of ranks that left are
// kept.
func testElasticOutput(t *testing.T) {
	dir := t.TempDir()
	list := filepath.Join(dir, "hosts")
	say := func(text string) {
		t.Helper()
		must.OK(t, os.WriteFile(list, []byte(text), 0o600))
	}
	read := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		return string(text)
	}
	say("localhost:2\n")
	r := command.Start(t, nil, append([]string{"-np", "2", "--min-np", "1", "--max-np", "3", "--prefix", "horovod",
		"--stdout-file", dir + "/%l.%2r",
		"--host-discovery-script", "cat " + list}, elasticRank(t, 25)...)...)
	must.Until(t, "the first epoch", func() bool { return strings.Contains(read("0.00"), "epoch 1 rank 0 of 2 ") })
	say("localhost:3\n")
	must.Until(t, "the rank that was added", func() bool {
		return strings.Contains(read("2.02"), "epoch 2 rank 2 of 3 ")
	})
	say("localhost:1\n")
	must.Until(t, "the ranks' end", func() bool { return strings.Contains(read("0.00"), "epoch 3 rank 0 of 1 ") })
	r.Want(0, "localhost has 3 slots", "localhost has 1 slot").NothingLeft(30 * time.Second)
	check.That(t, r.Out.Len() == 0, "shown: %s", golden.Clip(r.Out.String()))
}

// Killing guard and agent of one of two local ranks loses their host: nobody is left who knows what
// else they had started. The other agent must end although it has no connection to close.
func testElasticLocalGuardIsKilled(t *testing.T) {
	r := command.Start(t, nil, append([]string{"-np", "2", "--min-np", "1", "-H", "localhost:2"},
		elasticRank(t, 60)...)...)
	first := awaitEpoch(t, r, 1, 2, 20*time.Second)
	agent := agentOf(t, first[1].pid)
	_ = syscall.Kill(agent, syscall.SIGSTOP) // else it may end its rank once its guard has ended
	for _, pid := range []int{lab.Parent(agent), agent} {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	r.Want(125, "host localhost: ", "no rank that has the job's state is left",
		"hint: start the job again, from its last checkpoint").NothingLeft(30 * time.Second)
}

// Killing the agent of one rank is as a failure of that rank.
func testElasticAgentIsKilled(t *testing.T) {
	for _, hosts := range []string{"localhost:2", "f1,f2"} {
		var c *lab.Cluster
		if hosts != "localhost:2" {
			c = lab.MustNamespaces(t, lab.Specs(2)...)
		}
		r := command.Start(t, c, append([]string{"-np", "2", "--min-np", "1", "-H", hosts}, elasticRank(t, 12)...)...)
		first := awaitEpoch(t, r, 1, 2, 20*time.Second)
		killed := time.Now()
		rank := first[1].pid
		if c != nil {
			rank = victimOf(t, r, first[1])
		}
		_ = syscall.Kill(agentOf(t, rank), syscall.SIGKILL)
		second := awaitEpoch(t, r, 2, 1, 8*time.Second) // the goal is 2 s; a lost host takes 9 s
		t.Logf("on %s the other went on after %v", hosts, time.Since(killed))
		third := awaitEpoch(t, r, 3, 2, 10*time.Second)
		check.That(t, second[0].pid == first[0].pid && third[0].pid == first[0].pid && third[1].host == first[1].host,
			"of %+v became %+v and %+v", first, second, third)
		r.Want(0, "rank 1 on "+first[1].host+
			" has ended with its agent: the agent was killed by signal 9 (SIGKILL)").NothingLeft(30 * time.Second)
	}
}

// Ranks of examples/elastic are killed one after the other. The survivors continue, new ranks
// replace the killed, and all learn what one process alone does.
func testElasticExampleIsKilled(t *testing.T) {
	program := command.Binary("elastic")
	r := command.Start(t, nil, "-np", "3", "--min-np", "1", "-H", "localhost:3", "--prefix", "none", program,
		"--data", root+"/examples/mnist/data", "--pause", "20ms")
	times := func(text string) int { return strings.Count(r.Out.String(), text) }
	must.Until(t, "the first epoch", func() bool { return times(": size 3,") > 0 })
	for range 2 {
		two := times(": size 2,")
		three := times(": size 3,")
		time.Sleep(100 * time.Millisecond)
		ranks := slices.DeleteFunc(lab.Processes(r.Mark), func(pid int) bool {
			exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
			return exe != program
		})
		killed := time.Now()
		must.OK(t, syscall.Kill(ranks[1], syscall.SIGKILL))
		must.Until(t, "an epoch of two", func() bool { return times(": size 2,") > two })
		took := time.Since(killed)
		t.Logf("the others went on after %v", took)
		check.That(t, took <= 6*time.Second, "the others went on after %v", took) // the goal is 2 s
		must.Until(t, "an epoch of all", func() bool { return times(": size 3,") > three })
	}
	r.Want(0).NothingLeft(30 * time.Second)
	line := regexp.MustCompile(`(?m)rank \d of 3: accuracy (\S+) % after 450 steps$`)
	ends := line.FindAllStringSubmatch(r.Out.String(), -1)
	must.That(t, len(ends) == 3, "%d ranks of 3 have ended well:\n%s", len(ends), &r.Out)
	for _, end := range ends {
		check.That(t, must.Get(strconv.ParseFloat(end[1], 64))(t) >= 95.52-0.5, "%q: want 95.52 %%", end[0])
	}
}

// agentOf returns the agent of a process.
func agentOf(t *testing.T, pid int) int {
	t.Helper()
	agent := serving(pid)
	must.That(t, agent != 0, "the process has no agent")
	return agent
}

// serving returns the agent above a process, or 0 if it has just ended.
func serving(pid int) int {
	for ; pid > 1; pid = lab.Parent(pid) {
		if strings.Contains(command.ProcFile(pid, "cmdline"), "__serve") {
			return pid
		}
	}
	return 0
}
