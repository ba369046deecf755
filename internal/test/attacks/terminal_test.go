package attacks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// Nobody else reads or writes the terminal of a rank, on its host or in the panes of tmux, even if
// the folder of tmux's socket is open to all, and nobody else connects with it.
func TestTerminalsAreTheirUsersAlone(t *testing.T) {
	lab.Need(t, "script", "tmux")
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	run := ownFolder(t, c, "run")
	must.OK(t, os.Chmod(run, 0o755))
	env := []string{"TERM=xterm", "XDG_RUNTIME_DIR=" + run, "TMUX_TMPDIR=" + run}
	keys, typed := must.GetTwo(os.Pipe())(t)
	defer keys.Close()
	defer typed.Close()
	r := command.New(t, c, command.Limit, command.NewMark(t), "script", "-qec", command.Binary("gorun")+" -F "+
		c.ConfigFile+" --name job -np 1 -H f1 --panes=0 sleep 1234567", "/dev/null")
	r.Cmd.Env = append(r.Cmd.Env, env...)
	r.Cmd.Stdin = keys
	must.OK(t, r.Start())
	terminal := ""
	must.Until(t, "the rank in its terminal, and tmux", func() bool {
		for _, pid := range processesOf("sleep\x001234567\x00") {
			terminal, _ = os.Readlink("/proc/" + pid + "/fd/0")
		}
		sockets, _ := filepath.Glob(run + "/tmux-*/gorun-*")
		return strings.HasPrefix(terminal, "/dev/pts/") && len(sockets) == 1
	})
	script := `head -c 1 <"$1" || : >"$1" || tmux -S "$(echo "$2"/tmux-*/gorun-*)" list-sessions ||
		env XDG_RUNTIME_DIR="$2" "$3" attach --terminal 0 job`
	steal := func(uid int) error {
		return onAs(t, c, "f1", uid, script, terminal, run, command.Binary("gorun")).Run()
	}
	check.That(t, steal(attacker) != nil, "another user has a way to the terminal")
	check.OK(t, onAs(t, c, "f1", victim, `: >"$1"`, terminal).Run(),
		"not even its user opens", terminal, "so nothing is shown")
	must.OK(t, os.Chmod(must.Get(filepath.Glob(run + "/tmux-*"))(t)[0], 0o755))
	check.That(t, steal(attacker) != nil, "another user has a way to the terminal if the folder of tmux is open")
	command.StartIn(t, c, env, "kill", "job").Wait() // the job may have ended: tmux refuses such a folder
	r.Wait()
	r.NothingLeft(10 * time.Second)
}

// processesOf returns the processes with these arguments.
func processesOf(cmdline string) (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && string(text) == cmdline {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}
