package lab_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

func ssh(t *testing.T, c *lab.Cluster, host, command string) string {
	t.Helper()
	lab.Need(t, "ssh")
	out := must.Run(t, c.Command(t.Context(), "ssh", "-F", c.ConfigFile, host, command))
	return strings.TrimSpace(string(out))
}

func TestLoopback(t *testing.T) {
	c := lab.MustLoopback(t, lab.Spec{}, lab.Spec{Name: "node7", Env: []string{"WHO=second host"}})
	check.Equal(t, ssh(t, c, "f1", "echo $WHO."), ".", "f1 says")
	check.Equal(t, ssh(t, c, "node7", "echo $WHO."), "second host.", "node7 says")
}

func TestLoopbackCloseLeavesNothing(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(2)...)
	mark := "GORUN_LAB_TEST=" + c.Dir
	var clients []*exec.Cmd
	for _, h := range c.Hosts {
		// One process is in the session, another has left it.
		lab.Need(t, "ssh", "setsid")
		script := "export " + mark + "; (setsid sleep 300 </dev/null >/dev/null 2>&1 &); echo up; exec sleep 300"
		cmd := exec.Command("ssh", "-F", c.ConfigFile, h.Name, script)
		must.Get(lab.Start(t, cmd).Line())(t)
		clients = append(clients, cmd)
	}
	if n := len(lab.Processes(mark)); n < 4 {
		t.Fatalf("%d processes run on the hosts, want 4 at least", n)
	}
	must.OK(t, c.Close())
	for _, cmd := range clients {
		cmd.Wait() // the server has hung up
	}
	assertGone(t, c.Dir, mark)
	assertGone(t, c.Dir, c.Dir)
}

// assertGone fails when a process with the mark or the directory is left.
func assertGone(t *testing.T, dir, mark string) {
	t.Helper()
	pids := lab.Processes(mark)
	check.That(t, len(pids) == 0, "processes left that carry %s: %v", mark, pids)
	_, err := os.Stat(dir)
	check.That(t, os.IsNotExist(err), "%s is left: %v", dir, err)
}

func TestSkipFailsInCI(t *testing.T) {
	if os.Getenv("GORUN_LAB_SKIP") != "" {
		lab.Skip(t, "as told")
	}
	for ci, want := range map[string]string{"true": "FAIL", "": "ok"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSkipFailsInCI$")
		cmd.Env = append(os.Environ(), "GORUN_LAB_SKIP=1", "CI="+ci)
		out, err := cmd.CombinedOutput()
		failed := err != nil
		check.That(t, failed == (want == "FAIL"), "with CI=%q: %v: %s", ci, err, out)
	}
}
