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
	command.Await(t, "the rank", func() bool { return strings.Contains(r.Out.String(), "ready") })
	gorun := func(args ...string) *command.Run {
		t.Helper()
		other := command.StartIn(t, c, env, args...)
		other.Wait()
		return other
	}
	said := gorun("stacks", "--full", "job")
	if !strings.Contains(said.Out.String(), "it runs as user 65533") || !strings.Contains(said.Out.String(), "sleep") {
		t.Errorf("gorun stacks says\n%s%s", &said.Out, &said.Err)
	}
	if text, err := os.ReadFile(proof); err == nil {
		t.Fatalf("a program of another user ran as %q", text)
	}
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
