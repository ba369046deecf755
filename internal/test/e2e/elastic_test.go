package e2e

import (
	"encoding/json"
	"fmt"
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

// The tests run side by side, since elastic jobs mostly wait.
func TestElastic(t *testing.T) {
	t.Run(command.BesideOthers, func(t *testing.T) {
		for name, test := range map[string]func(*testing.T){
			"rank is killed": testElasticRankIsKilled, "hosts come and go": testElasticHostsComeAndGo,
			"host vanishes":      testElasticHostVanishes,
			"agent stands still": testElasticAgentStandsStill, "ends": testElasticEnds, "max-restarts": testMaxRestarts,
			"plain program": testElasticJobOfPlainProgram, "chaos": testElasticChaos,
			"output": testElasticOutput, "local guard is killed": testElasticLocalGuardIsKilled,
			"agent is killed": testElasticAgentIsKilled, "example is killed": testElasticExampleIsKilled,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t)
			})
		}
	})
	left := command.Processes()
	check.That(t, len(left) == 0, "processes are left: %v", left)
}

// elasticRank returns the command of a rank that goes from epoch to epoch for some seconds.
func elasticRank(t *testing.T, seconds int, code ...string) []string {
	t.Helper()
	lab.Need(t, "python3")
	return append([]string{"python3", testdata("elastic/rank.py"),
		strconv.FormatInt(time.Now().Unix()+int64(seconds), 10)}, code...)
}

// member is a line that a rank prints in an epoch.
type member struct {
	host                                  string
	epoch, rank, size, local, inHost, pid int
}

// members returns, by rank, the ranks of an epoch that have printed their line.
func members(r *command.Run, epoch int) map[int]member {
	line := regexp.MustCompile(`^(\S+):\d+: +epoch (\d+) rank (\d+) of (\d+) local (\d+) of (\d+) addrs (\S+) pid (\d+)$`)
	found := map[int]member{}
	for _, text := range r.Lines() {
		m := line.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		var n [9]int
		for _, i := range []int{2, 3, 4, 5, 6, 8} {
			n[i], _ = strconv.Atoi(m[i])
		}
		if n[2] == epoch {
			found[n[3]] = member{m[1], n[2], n[3], n[4], n[5], n[6], n[8]}
		}
	}
	return found
}

// awaitEpoch waits until all ranks of an epoch have reported, and returns them.
func awaitEpoch(t *testing.T, r *command.Run, epoch, size int, limit time.Duration) map[int]member {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		found := members(r, epoch)
		if len(found) == size && found[0].size == size {
			return found
		}
		if time.Now().After(deadline) {
			t.Fatalf("epoch %d of %d ranks did not come about within %v:\n%s%s", epoch, size, limit,
				golden.Clip(r.Out.String()), golden.Clip(r.Err.String()))
		}
	}
}

// A killed rank ends its epoch and returns in another one. The other processes live on.
func testElasticRankIsKilled(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	r := command.Start(t, c, append([]string{"-np", "4", "--min-np", "2", "-H", "f1:2,f2:2"}, elasticRank(t, 10)...)...)
	first := awaitEpoch(t, r, 1, 4, 20*time.Second)
	killed := time.Now()
	must.OK(t, syscall.Kill(victimOf(t, r, first[3]), syscall.SIGKILL))
	second := awaitEpoch(t, r, 2, 3, 10*time.Second) // the goal is 2 s
	t.Logf("the others went on after %v", time.Since(killed))
	third := awaitEpoch(t, r, 3, 4, 10*time.Second)
	t.Logf("it was back after %v", time.Since(killed))
	for rank := range 3 {
		if second[rank].pid != first[rank].pid || third[rank].pid != first[rank].pid ||
			third[rank].host != first[rank].host {
			t.Errorf("rank %d is %+v, %+v, %+v", rank, first[rank], second[rank], third[rank])
		}
	}
	check.That(t, third[3].host == first[3].host && third[3].pid != first[3].pid && third[3].local == 1 &&
		third[3].inHost == 2, "in the place of %+v there is %+v", first[3], third[3])
	r.Want(0, "rank 3 on f2 was killed by signal 9", "epoch 2: 3 ranks on 2 hosts", "epoch 3: 4 ranks on 2 hosts")
	r.NothingLeft(30 * time.Second)
}

// victimOf returns the process of a rank.
func victimOf(t *testing.T, r *command.Run, m member) int {
	return insideOf(t, r, m.host, m.pid, "python3")
}

// insideOf returns the process of this job's program with the id pid in its host's namespace.
// Processes of other hosts may have the same id.
func insideOf(t *testing.T, r *command.Run, host string, pid int, program string) int {
	t.Helper()
	for _, p := range lab.Processes(r.Mark) {
		name, _, _ := strings.Cut(command.ProcFile(p, "cmdline"), "\x00")
		if !strings.HasSuffix(name, program) || !strings.Contains(command.ProcFile(p, "environ"), "\x00GORUN_HOSTNAME="+
			host+"\x00") {
			continue
		}
		for line := range strings.Lines(command.ProcFile(p, "status")) {
			if ids := strings.Fields(line); len(ids) > 1 && ids[0] == "NSpid:" && ids[len(ids)-1] == strconv.Itoa(pid) {
				return p
			}
		}
	}
	t.Fatalf("there is no process %d of %s on %s", pid, program, host)
	return 0
}

// The discovery script adds and removes hosts. Each change is an epoch, and an event.
func testElasticHostsComeAndGo(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(3)...)
	list := filepath.Join(t.TempDir(), "hosts")
	say := func(text string) time.Time {
		t.Helper()
		must.OK(t, os.WriteFile(list+".new", []byte(text), 0o600))
		must.OK(t, os.Rename(list+".new", list))
		return time.Now()
	}
	say("f1:1\nf2\n")
	events := filepath.Join(t.TempDir(), "events")
	r := command.Start(t, c, append([]string{"-np", "3", "--min-np", "1", "--max-np", "5", "--slots-per-host", "2",
		"--host-discovery-script", "cat " + list, "--setup", "echo set up", "--teardown", "echo torn down",
		"--json-events", events}, elasticRank(t, 15)...)...)
	first := awaitEpoch(t, r, 1, 3, 20*time.Second)
	at := say("f1:1\nf2\nf3:4\n")
	second := awaitEpoch(t, r, 2, 5, 15*time.Second) // with -np 3 --max-np 5 there are 2 more
	t.Logf("a host was added within %v", time.Since(at))
	check.That(t, second[0].pid == first[0].pid && second[3].host == "f3" && second[4].local == 1,
		"after a host was added: %+v", second)
	say("this is no: list of hosts\n")
	at = say("f2:2\nf3:4\n")
	third := awaitEpoch(t, r, 3, 4, 15*time.Second)
	t.Logf("a host was removed within %v", time.Since(at))
	check.That(t, third[0].pid == first[1].pid && third[0].host == "f2",
		"rank 0 is %+v after its host went, want %+v", third[0], first[1])
	r.Want(0, "host f3 has 4 slots", "host f1 is not on the list any more")
	out := r.Out.String()
	for _, host := range []string{"f1", "f2", "f3"} {
		before, after, found := strings.Cut(out, host+": set up\n")
		check.That(t, found && !strings.Contains(before, host+":") && !strings.Contains(after, host+": set up"),
			"%s was not set up once, before its ranks: %s", host, out)
		check.That(t, strings.Count(after, host+": torn down\n") == 1, "%s was not cleaned up once: %s", host, out)
	}
	text := must.Get(os.ReadFile(events))(t)
	var kinds []string
	for line := range strings.Lines(string(text)) {
		var e step
		must.OK(t, json.Unmarshal([]byte(line), &e))
		if e.Event == "elastic" && e.Kind == "epoch" {
			kinds = append(kinds, fmt.Sprintf("%d %s", e.Epoch, e.Text))
		}
	}
	got := strings.Join(kinds, "; ")
	check.That(t, strings.HasPrefix(got, "1 epoch 1: 3 ranks on 2 hosts; 2 epoch 2: 5 ranks on 3 hosts; 3 epoch 3: "),
		"the events say %s", got)
	r.NothingLeft(30 * time.Second)
}

// A silent host is lost and fenced, and the others go on.
func testElasticHostVanishes(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	r := command.Start(t, c, append([]string{"-np", "2", "--min-np", "1", "-H", "f1,f2"}, elasticRank(t, 38)...)...)
	first := awaitEpoch(t, r, 1, 2, 20*time.Second)
	cut := time.Now()
	must.OK(t, c.Cut(t.Context(), "f2"))
	second := awaitEpoch(t, r, 2, 1, 40*time.Second) // the goal is 20 s
	t.Logf("the other went on after %v", time.Since(cut))
	check.That(t, second[0].pid == first[0].pid, "rank 0 was %+v and is %+v", first[0], second[0])
	if left := c.Inside("f2"); len(left) > 0 {
		for _, pid := range left {
			check.That(t, !strings.Contains(command.ProcFile(pid, "cmdline"), "rank.py"),
				"the rank of f2 is alive in the next epoch: %d", pid)
		}
	}
	must.OK(t, c.Restore(t.Context(), "f2"))
	awaitEpoch(t, r, 3, 2, 40*time.Second) // it was set aside for 10 s
	r.Want(0, "host f2: ", "epoch 3: 2 ranks on 2 hosts")
	r.NothingLeft(30 * time.Second)
}

// A stopped agent loses its host. When it continues, its rank takes part in nothing any more, and
// ends.
func testElasticAgentStandsStill(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	r := command.Start(t, c, append([]string{"-np", "2", "--min-np", "1", "-H", "f1,f2"}, elasticRank(t, 30)...)...)
	first := awaitEpoch(t, r, 1, 2, 20*time.Second)
	rank := victimOf(t, r, first[1])
	agent := agentOf(t, rank)
	must.OK(t, syscall.Kill(agent, syscall.SIGSTOP), "stop agent", agent)
	awaitEpoch(t, r, 2, 1, 40*time.Second)
	_ = syscall.Kill(agent, syscall.SIGCONT)
	must.Until(t, "the end of the rank that was left", func() bool { return command.ProcFile(rank, "stat") == "" })
	got := members(r, 2)
	check.That(t, len(got) == 1 && got[0].pid == first[0].pid, "epoch 2 is %+v", got)
	r.Want(0, "host f2: no word from the agent for 10")
	r.NothingLeft(30 * time.Second)
}

// The exit codes of elastic jobs are those of other jobs, and nothing is left.
func testElasticEnds(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	t.Run("failing rank", func(t *testing.T) {
		began := time.Now()
		command.Start(t, c, append([]string{"-np", "2", "--min-np", "2", "-H", "f1,f2"},
			elasticRank(t, 2, "7")...)...).Want(7, "exited with code 7").NothingLeft(30 * time.Second)
		took := time.Since(began)
		check.That(t, took <= 40*time.Second, "it took %v", took)
	})
	t.Run("no such program", func(t *testing.T) {
		command.Start(t, c, "-np", "2", "--min-np", "1", "-H", "f1,f2", "no-such-program").Want(127,
			`the program "no-such-program" was not found`).NothingLeft(30 * time.Second)
	})
	t.Run("too few slots", func(t *testing.T) {
		command.Start(t, c, "-np", "2", "--min-np", "1", "--elastic-timeout", "2", "--host-discovery-script", "echo f1",
			"true").
			Want(125, "there are 1 slots for 2 ranks", "waiting for hosts").NothingLeft(30 * time.Second)
	})
	t.Run("too few slots later", func(t *testing.T) {
		list := filepath.Join(t.TempDir(), "hosts")
		must.OK(t, os.WriteFile(list, []byte("f1:1\nf2:1\n"), 0o600))
		r := command.Start(t, c, append([]string{"-np", "2", "--min-np", "2", "--elastic-timeout", "3",
			"--host-discovery-script", "cat " + list}, elasticRank(t, 60)...)...)
		awaitEpoch(t, r, 1, 2, 20*time.Second)
		must.OK(t, os.WriteFile(list, []byte("f1:1\n"), 0o600))
		r.Want(125, "1 rank could run, and there must be 2, for 3s").NothingLeft(30 * time.Second)
	})
	t.Run("host that is none", func(t *testing.T) { // nothing can run there, so nobody waits for its end
		r := command.Start(t, c, append([]string{"-np", "2", "--min-np", "1", "-H", "f1,no-such-host"},
			elasticRank(t, 8)...)...)
		awaitEpoch(t, r, 2, 1, 7*time.Second)
		r.Want(0, "host no-such-host: ").NothingLeft(30 * time.Second)
	})
	t.Run("reset limit", func(t *testing.T) {
		r := command.Start(t, c, append([]string{"-np", "2", "--min-np", "1", "--reset-limit", "1", "-H", "f1,f2"},
			elasticRank(t, 60)...)...)
		first := awaitEpoch(t, r, 1, 2, 20*time.Second)
		_ = syscall.Kill(victimOf(t, r, first[1]), syscall.SIGKILL)
		second := awaitEpoch(t, r, 3, 2, 20*time.Second) // what puts back the lost rank is no reset
		_ = syscall.Kill(victimOf(t, r, second[1]), syscall.SIGKILL)
		r.Want(137, "the limit of 1 reset is reached").NothingLeft(30 * time.Second)
	})
	t.Run("Ctrl-C", func(t *testing.T) {
		r := command.Start(t, c, append([]string{"-np", "2", "--min-np", "1", "-H", "f1,f2"}, elasticRank(t, 60)...)...)
		awaitEpoch(t, r, 1, 2, 20*time.Second)
		_ = r.Cmd.Process.Signal(syscall.SIGINT)
		r.Want(130).NothingLeft(30 * time.Second)
	})
	t.Run("killed launcher", func(t *testing.T) {
		r := command.Start(t, c, append([]string{"-np", "2", "--min-np", "1", "-H", "f1,f2"}, elasticRank(t, 60)...)...)
		awaitEpoch(t, r, 1, 2, 20*time.Second)
		_ = r.Cmd.Process.Kill()
		r.Wait()
		r.NothingLeft(30 * time.Second)
	})
	t.Run("program that is not elastic", func(t *testing.T) {
		command.Start(t, c, "-np", "3", "--min-np", "1", "-H", "f1:2,f2:2", "sh", "-c",
			"echo rank $RANK").Want(0).NothingLeft(30 * time.Second)
	})
}

// Programs that know no epochs are all restarted; each time rank 0's host has another free port.
func testMaxRestarts(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	script := func(succeeds int) string {
		return fmt.Sprintf(`echo rank $RANK of $WORLD_SIZE, restart $TORCHELASTIC_RESTART_COUNT, $MASTER_ADDR $LOCAL_RANK $GROUP_RANK
			[ $RANK = 2 -a $TORCHELASTIC_RESTART_COUNT -lt %d ] && sleep 1 && exit 9; [ $TORCHELASTIC_RESTART_COUNT = %d ] || sleep 60`, succeeds, succeeds)
	}
	r := command.Start(t, c, "-np", "3", "-H", "f1,f2:2", "--max-restarts", "3", "sh", "-c", script(2)).Want(0,
		"rank 2 on f2 exited with code 9", "epoch 3: 3 ranks on 2 hosts")
	for count := range 3 {
		for rank, where := range []string{"0 0", "0 1", "1 1"} {
			want := fmt.Sprintf("rank %d of 3, restart %d, %s %s", rank, count, "10.77.0.11", where)
			check.That(t, strings.Count(r.Out.String(), want+"\n") == 1,
				"%q is not there once in\n%s", want, r.Out.String())
		}
	}
	r.NothingLeft(30 * time.Second)
	command.Start(t, c, "-np", "3", "-H", "f1,f2:2", "--max-restarts", "1", "sh", "-c", script(5)).
		Want(9,
			"the limit of 1 restart is reached, after rank 2 on f2 exited with code 9").NothingLeft(30 * time.Second)
}

// A program that never asks for an epoch runs and fails as in a fixed job.
func testElasticJobOfPlainProgram(t *testing.T) {
	r := command.Start(t, nil, "-np", "2", "--min-np", "1", "sh", "-c", "sleep 12; echo was there; exit $((RANK*5))")
	r.Want(5, "rank 1 on localhost exited with code 5 (after 12").NothingLeft(30 * time.Second)
	text := r.Out.String()
	check.That(t, strings.Count(text, "was there") != 0, "the ranks said %s", text)
}
