package attacks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// A rank of root's job becomes another user, and has inherited the socket for MPI. What it asks to
// be spawned there is not started: it would run as root.
func TestRankOfAnotherUserSpawnsNothing(t *testing.T) {
	lab.Need(t, "setpriv", "/usr/bin/python3")
	c := lab.MustNamespaces(t, lab.Specs(1)...)
	s := newCommons(t, c.Dir)
	s.as(0, `: >wins && chmod 666 wins`)
	s.as(attacker, `printf '#!/bin/sh\nid -u >>'$PWD'/wins\n' >theirs/evil && chmod 755 theirs/evil`)
	const asks = `import os, sys
def ask(text):
    os.write(3, text.encode())
    return os.read(3, 9999).decode()
ask("cmd=init pmi_version=1 pmi_subversion=1\n")
print(ask("mcmd=spawn\nnprocs=1\nexecname=%s\ntotspawns=1\nspawnssofar=1\nargcnt=0\npreput_num=0\n"
          "info_num=0\nendcmd\n" % sys.argv[1]))
ask("cmd=finalize\n")`
	gorun := func(words ...string) *command.Run {
		words = append([]string{"-np", "1", "-H", "f1:2"}, words...)
		return command.Start(t, c, append(words, "/usr/bin/python3", "-S", "-c", asks,
			filepath.Join(c.Dir, "theirs/evil"))...)
	}
	r := gorun()
	r.Wait() // the job fails, as what is spawned does not begin MPI
	must.Equal(t, s.as(0, `cat wins && : >wins`), "0\n", "a rank of root's spawns nothing, so nothing is shown:", &r.Err)
	r = gorun("setpriv", "--reuid", "65533", "--regid", "65533", "--clear-groups").Want(0, "runs as another user")
	check.That(t, !strings.Contains(r.Out.String(), "rc=0"), "the rank hears %s", &r.Out)
	noWins(s)
}

// A rank of root's job becomes another user. What that user's process says of itself makes gorun
// run nothing as root, and write and read no file of root's.
func TestRanksOfAnotherUserAreNotObeyed(t *testing.T) {
	lab.Need(t, "setpriv", "python3")
	c := lab.MustNamespaces(t, lab.Specs(1)...)
	dir := filepath.Join(c.Dir, "theirs")
	for _, made := range []string{c.Dir, dir} {
		must.OK(t, os.MkdirAll(made, 0o755))
	}
	proof := filepath.Join(dir, "proof")
	evil := fmt.Sprintf("#!/bin/sh\nid -u >>%s\ntimeout 1 cat >/dev/null\n", proof)
	for _, name := range []string{"gdb", "eu-stack", "py-spy", "nvidia-smi", "whoami"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(evil), 0o755))
	}
	must.OK(t, os.Chown(dir, attacker, attacker))
	env := []string{"XDG_STATE_HOME=" + c.Dir, "XDG_RUNTIME_DIR="}
	// The process's name begins with python, so that py-spy is tried, too.
	r := command.StartIn(t, c, env, "--name", "job", "-H", "f1:2", "sh", "-c", `[ $RANK = 0 ] || exec sleep 1000
		exec setpriv --reuid 65533 --regid 65533 --clear-groups env PATH="$0:$PATH" python3 -S -c '
import os, signal, sys, time
signal.signal(40, lambda *_: 0)
print("ready", flush=True)
time.sleep(1000)'`, dir)
	must.Until(t, "the rank", func() bool { return strings.Contains(r.Out.String(), "ready") })
	gorun := func(args ...string) *command.Run {
		t.Helper()
		other := command.StartIn(t, c, env, args...)
		other.Wait()
		return other
	}
	said := gorun("stacks", "--full", "job")
	check.That(t, strings.Contains(said.Out.String(), "it runs as user 65533") &&
		strings.Contains(said.Out.String(), "sleep"), "gorun stacks says\n%s%s", &said.Out, &said.Err)
	text, err := os.ReadFile(proof)
	must.That(t, err != nil, "a program of another user ran as %q", text)
	said = gorun("exec", "--rank", "0", "job", "sh", "-c", "id -u; id -g; id -G; whoami")
	check.That(t, said.Out.String() == "65533\n65533\n65533\n", "gorun exec says %q, %s", said.Out.String(), &said.Err)
	if text, err := os.ReadFile(proof); err != nil || string(text) != "65533\n" {
		t.Errorf("a program in the environment of another user ran as %q, %v", text, err)
	}
	said = gorun("exec", "--rank", "1", "job", "id", "-u")
	check.That(t, said.Out.String() == "0\n",
		"gorun exec beside a rank of root's says %q, %s", said.Out.String(), &said.Err)
	r.Stop()
}
