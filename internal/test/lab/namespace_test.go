package lab_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out := must.Run(t, cmd)
	return strings.TrimSpace(string(out))
}

func TestNamespaceHostsAreApart(t *testing.T) {
	before := machine(t)
	c := lab.MustNamespaces(t,
		lab.Spec{Files: map[string]string{"note": "one\n"}},
		lab.Spec{Files: map[string]string{"note": "two\n"}, Env: []string{"PATH=/opt/x:/usr/bin:/bin"}},
		lab.Spec{Home: "f1", Boot: "af15ee27-21c5-47e2-b7d5-ad6ad6bb6b3a"},
	)
	during := machine(t)
	check.That(t, slices.Equal(before, during), "links of the machine changed:\n%v\n%v", before, during)
	for _, test := range []struct{ host, command, want string }{
		{"f1", "hostname", "f1"},
		{"f2", "hostname", "f2"},
		{"f1", "cat note", "one"},
		{"f2", "cat note", "two"},
		{"f3", "cat note", "one"}, // shares f1's home
		{"f3", "cat /proc/sys/kernel/random/boot_id", "af15ee27-21c5-47e2-b7d5-ad6ad6bb6b3a"},
		{"f2", "echo $PATH", "/opt/x:/usr/bin:/bin"},
		{"f2", "getent hosts f1 | cut -d' ' -f1", c.Host("f1").Addr},
	} {
		check.Equal(t, ssh(t, c, test.host, test.command), test.want, test.command, "on", test.host, "says")
	}
	ctx := t.Context()
	dir, _ := os.Getwd()
	check.Equal(t, output(t, c.Command(ctx, "sh", "-c", "hostname; pwd")), "f0\n"+dir, "f0 says")
	check.Equal(t, output(t, c.On(ctx, "f2", "sh", "-c", "hostname; cat note 2>/dev/null || cat ~/note")), "f2\ntwo",
		"f2 says")
	check.That(t, c.Host("f1").PID != 0, "f1's sshd was not found")
}

// machine lists the parts of this machine that a lab must not change.
func machine(t *testing.T) []string {
	t.Helper()
	links := must.Get(os.ReadDir("/sys/class/net"))(t)
	named, _ := os.ReadDir("/run/netns")
	var all []string
	for _, entry := range append(links, named...) {
		all = append(all, entry.Name())
	}
	return all
}

func TestNamespacesAsUser(t *testing.T) {
	if os.Getuid() != 0 {
		lab.Skip(t, "needs root")
	}
	c := lab.MustNamespacesAs(t, 54321, lab.Spec{})
	check.Equal(t, ssh(t, c, "f1", "id -un; touch mine; ls -n mine | cut -d' ' -f3"), "rank\n54321", "session says")
	check.Equal(t, output(t, c.Command(t.Context(), "id", "-u")), "54321", "f0 runs as")
	check.Equal(t, output(t, c.On(t.Context(), "f1", "id", "-u")), "54321", "f1 runs as")
}

func TestLoginShells(t *testing.T) {
	var specs []lab.Spec
	shells := []string{"sh", "bash", "tcsh", "fish", "zsh"}
	for _, shell := range shells {
		lab.Need(t, shell)
		path, _ := exec.LookPath(shell)
		specs = append(specs, lab.Spec{Name: shell, Shell: path})
	}
	c := lab.MustNamespaces(t, specs...)
	for _, shell := range shells {
		want, _ := exec.LookPath(shell)
		check.Equal(t, ssh(t, c, shell, "echo $SHELL"), want, shell, "runs")
	}
}

func TestCommandSignalsReachTheProgram(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(1)...)
	cmd := c.Command(t.Context(), "sh", "-c", "trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done")
	out := must.Get(cmd.StdoutPipe())(t)
	must.OK(t, cmd.Start())
	out.Read(make([]byte, 2))
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
	code := cmd.ProcessState.ExitCode()
	check.That(t, code == 7, "exit code %d, want the program's own 7", code)
}

func TestNamespacesCloseLeavesNothing(t *testing.T) {
	before := machine(t)
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	mark := "GORUN_LAB_TEST=" + c.Dir
	// Programs on f0 and on the hosts may drop the lab's mark and their parent.
	escape := "(env -i " + mark + " setsid sleep 300 </dev/null >/dev/null 2>&1 &); true"
	ssh(t, c, "f1", escape)
	output(t, c.Command(t.Context(), "sh", "-c", escape))
	// They start on their own, with nobody to tell.
	must.Until(t, "2 processes", func() bool { return len(lab.Processes(mark)) == 2 })
	must.OK(t, c.Close())
	assertGone(t, c.Dir, mark)
	assertGone(t, c.Dir, c.Dir)
	after := machine(t)
	check.That(t, slices.Equal(before, after), "links of the machine changed:\n%v\n%v", before, after)
}
