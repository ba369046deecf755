package e2e

import (
	"os"
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

// stint is a rank's time in one epoch, as it reports when it begins.
type stint struct {
	host                                       string
	rank, size, local, inHost, sum, batch, pid int
}

// training is a job of stock elastic Horovod.
type training struct {
	*command.Run
	t      *testing.T
	folder string
	read   int // lines that told of epochs before
}

// startTraining starts testdata/elastic/train.py with the options in words. The discovery script
// prints the file FOLDER/hosts.
func startTraining(t *testing.T, c *lab.Cluster, hosts string, words string) *training {
	t.Helper()
	j := &training{t: t, folder: t.TempDir()}
	j.hosts(hosts)
	args := append(strings.Fields(strings.ReplaceAll(words, "DISCOVERY", "--host-discovery-script "+j.folder+
		"/discover")), python, testdata("elastic/train.py"), j.folder)
	must.OK(t, os.WriteFile(j.folder+"/discover", []byte("#!/bin/sh\nexec cat "+j.folder+"/hosts\n"), 0o700))
	env := []string{lab.Horovod(t), "OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1"}
	j.Run = command.StartIn(t, c, env, args...)
	return j
}

// hosts sets which hosts discovery reports from now on.
func (j *training) hosts(list string) {
	j.t.Helper()
	must.OK(j.t, os.WriteFile(j.folder+"/new", []byte(list), 0o600))
	must.OK(j.t, os.Rename(j.folder+"/new", j.folder+"/hosts"))
}

// await waits until a new epoch of a size trains, and returns its ranks.
func (j *training) await(size int) map[int]stint {
	j.t.Helper()
	line := regexp.MustCompile(`^(\S+):\d+: rank (\d+) of (\d+) local (\d+) of (\d+) sum (\d+) batch (\d+) pid (\d+)$`)
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		found := map[int]stint{}
		lines := inOrder(j.Out.String())
		for i, text := range lines[j.read:] {
			m := line.FindStringSubmatch(text)
			if m == nil {
				continue
			}
			var n [9]int
			for i := 2; i < len(m); i++ {
				n[i], _ = strconv.Atoi(m[i])
			}
			if n[3] != size {
				continue
			}
			if found[n[2]] = (stint{m[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8]}); n[6] != size {
				j.t.Errorf("%s: the sum of all ranks is another", text)
			}
			if len(found) == size {
				j.read += i + 1
				return found
			}
		}
		if time.Now().After(deadline) {
			j.t.Fatalf("there is no epoch of %d ranks:\n%s%s", size, golden.Clip(j.Out.String()),
				golden.Clip(j.Err.String()))
		}
	}
}

// inOrder returns the complete lines of a text.
func inOrder(text string) []string {
	end := strings.LastIndexByte(text, '\n')
	if end < 0 {
		return nil
	}
	return strings.Split(text[:end], "\n")
}

// end ends the training, and checks that it succeeds and that nothing is left. Other jobs run on
// the same hosts.
func (j *training) end(says ...string) {
	j.t.Helper()
	must.OK(j.t, os.WriteFile(j.folder+"/end", nil, 0o600))
	if got := j.Wait(); got != 0 {
		j.t.Errorf("exit code %d, want 0\nstdout:\n%s\nstderr:\n%s", got, golden.Clip(j.Out.String()),
			golden.Clip(j.Err.String()))
	}
	for _, text := range says {
		check.That(j.t, strings.Contains(j.Err.String(), text),
			"stderr lacks %q:\n%s", text, golden.Clip(j.Err.String()))
	}
	must.Until(j.t, "the end of all processes", func() bool { return len(lab.Processes(j.Mark)) == 0 })
}

// kill ends a rank as a crash does.
func (j *training) kill(s stint) time.Time {
	j.t.Helper()
	at := time.Now()
	must.OK(j.t, syscall.Kill(insideOf(j.t, j.Run, s.host, s.pid, python), syscall.SIGKILL))
	return at
}

// Horovod's own elastic workers keep the state of their training, and survivors wait for nobody.
// Limits and exit codes are cases of TestHorovodScenarios.
func TestElasticHorovod(t *testing.T) {
	lab.Horovod(t) // or skip
	c := lab.MustNamespaces(t, lab.Specs(3)...)
	t.Run("group", func(t *testing.T) {
		t.Run("hosts and ranks come and go", func(t *testing.T) { t.Parallel(); testHorovodComesAndGoes(t, c) })
		t.Run("deaths", func(t *testing.T) { t.Parallel(); testHorovodDeaths(t, c) })
		t.Run("this machine and another", func(t *testing.T) { t.Parallel(); testHorovodHere(t, c) })
		t.Run("silent host", func(t *testing.T) { t.Parallel(); testHorovodSilentHost(t, c) })
	})
}

// A host is added, a rank dies and returns, and the first host leaves. The training keeps its
// state.
func testHorovodComesAndGoes(t *testing.T, c *lab.Cluster) {
	j := startTraining(t, c, "f1:2\n", "-np 2 --min-np 1 --max-np 4 DISCOVERY")
	first := j.await(2)
	j.hosts("f1:2\nf2:1\n")
	at := time.Now()
	grown := j.await(3)
	t.Logf("a host was at work %v after it was added", time.Since(at))
	check.That(t, grown[0].pid == first[0].pid && grown[1].pid == first[1].pid && grown[2].host == "f2" &&
		grown[2].batch == grown[0].batch && grown[0].batch != 0,
		"of %+v became %+v", first, grown)
	at = j.kill(grown[1])
	left := j.await(2)
	t.Logf("training again %v after a death", time.Since(at))
	if took := time.Since(at); took > 20*time.Second { // the goal is 8 s
		t.Errorf("training again %v after a death", took)
	}
	check.That(t, left[0].pid == grown[0].pid && left[1].pid == grown[2].pid && left[0].batch >= grown[0].batch,
		"of %+v became %+v", grown, left)
	back := j.await(3)
	check.That(t, back[0].pid == left[0].pid && back[0].batch >= left[0].batch && back[1].host == "f1" &&
		back[1].pid != grown[1].pid && back[2].pid == left[1].pid,
		"of %+v became %+v", left, back)
	j.hosts("f2:1\n")
	last := j.await(1)
	check.That(t, last[0].pid == grown[2].pid && last[0].batch >= back[0].batch, "of %+v became %+v", back, last)
	j.end("host f1 is not on the list any more", "epoch 2: 3 ranks on 2 hosts", "was killed by signal 9")
}

// Some survivors of a death wait for others that wait for the dead rank. None waits for Gloo's 30 s
// timeout.
func testHorovodDeaths(t *testing.T, c *lab.Cluster) {
	j := startTraining(t, c, "", "-np 4 --min-np 1 -H f1:2,f2:2")
	for _, rank := range []int{3, 1, 2} {
		all := j.await(4)
		time.Sleep(2 * time.Second) // they train; who has just begun is left alone as long
		at := j.kill(all[rank])
		left := j.await(3)
		took := time.Since(at)
		t.Logf("training again %v after the death of rank %d", took, rank)
		if took > 20*time.Second { // the goal is 8 s
			t.Errorf("training again %v after the death of rank %d", took, rank)
		}
		check.That(t, left[0].pid == all[0].pid && left[0].batch >= all[0].batch, "of %+v became %+v", all, left)
	}
	j.end("was killed by signal 9")
}

// A silent host is lost, and the others wait no longer than its detection takes.
func testHorovodSilentHost(t *testing.T, c *lab.Cluster) {
	j := startTraining(t, c, "", "-np 3 --min-np 1 -H f1,f2,f3")
	all := j.await(3)
	time.Sleep(2 * time.Second)
	at := time.Now()
	must.OK(t, c.Cut(t.Context(), "f3"))
	left := j.await(2)
	took := time.Since(at)
	t.Logf("training again %v after a host went silent", took)
	if took > 40*time.Second { // the goal is 20 s
		t.Errorf("training again %v after a host went silent", took)
	}
	check.That(t, left[0].pid == all[0].pid && left[1].pid == all[1].pid, "of %+v became %+v", all, left)
	j.end("f3")
}

// Ranks that join on other hosts find a process that was alone on the launcher's machine.
func testHorovodHere(t *testing.T, c *lab.Cluster) {
	j := startTraining(t, c, "localhost:1\n", "-np 1 --min-np 1 --max-np 2 DISCOVERY")
	first := j.await(1)
	j.hosts("localhost:1\nf1:1\n")
	both := j.await(2)
	check.That(t, both[0].pid == first[0].pid && both[0].host == "localhost" && both[1].host == "f1" &&
		both[1].batch == both[0].batch,
		"of %+v became %+v", first, both)
	j.end("epoch 2: 2 ranks on 2 hosts")
	// Gloo on loopback reaches hosts of lower addresses only, as the lab's are.
	out := j.Out.String()
	check.That(t, strings.Contains(out, "localhost:0: interface ") && !strings.Contains(out, "interface lo\n"),
		"a process is on loopback:\n%s", golden.Clip(out))
}
