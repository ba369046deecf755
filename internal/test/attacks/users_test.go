package attacks

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/buildid"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// onAs runs a script on a host as a user; 0 is root.
func onAs(t *testing.T, c *lab.Cluster, host string, uid int, script string, args ...string) *exec.Cmd {
	t.Helper()
	id := strconv.Itoa(uid)
	argv := append([]string{"-t", strconv.Itoa(c.Host(host).PID), "-m", "-n", "-p", "--", "setpriv", "--reuid", id,
		"--regid", id, "--clear-groups",
		"--pdeathsig", "KILL", "sh", "-c", script, "sh"}, args...)
	cmd := exec.CommandContext(t.Context(), "nsenter", argv...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// installed copies gorun into the launcher's home and returns the name of its folder in the cache
// of hosts.
func installed(t *testing.T, c *lab.Cluster) (folder string) {
	t.Helper()
	must.Run(t, c.Command(t.Context(), "sh", "-c", `mkdir -p ~/bin && cp "$0" ~/bin/gorun`, command.Binary("gorun")))
	build := must.Get(buildid.Of(command.Binary("gorun")))(t)
	return buildid.Folder(build)
}

// userCommand returns a command of a user on this machine.
func userCommand(uid int, argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	return cmd
}

// asUser reads a file as a user, in another process.
func asUser(uid int, path string) error {
	cmd := userCommand(uid, "head", "-c", "1", path)
	return cmd.Run()
}

// userHome returns the path of the home directory, the same on every host of c.
func userHome(t *testing.T, c *lab.Cluster) string {
	t.Helper()
	home := must.Get(c.Command(t.Context(), "sh", "-c", "cd && pwd").Output())(t)
	return strings.TrimSpace(string(home))
}
