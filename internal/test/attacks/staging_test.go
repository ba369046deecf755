package attacks

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// attackTime returns how long an attack lasts. GORUN_ATTACK=10m is the long one.
func attackTime(t *testing.T) time.Duration {
	t.Helper()
	long, err := time.ParseDuration(os.Getenv("GORUN_ATTACK"))
	if err != nil {
		return 5 * time.Second
	}
	return long
}

// attackScript creates and removes programs, directories, links, pipes and hard links at the paths
// that gorun tries for itself. $1 is the home, $2 the evil program, $3 the folder, $4 the kind.
const attackScript = `cd /
mine=/var/tmp/evil; mkdir -p $mine/$3; cp "$2" $mine/$3/gorun; chmod 755 $mine/$3/gorun; echo mark 0 >$mine/$3/checked
while :; do
	case $4 in
	own) rm -rf "$1/bin"; mkdir -m 777 "$1/bin" && ln -s "$2" "$1/bin/gorun"; mv "$1/bin" "$1/bin.$$"; rm -rf "$1/bin.$$"; mkdir -m 777 "$1/bin"; cp "$2" "$1/bin/gorun" ;;
	dirs) for d in "$1/.cache/gorun" /var/tmp/gorun-65534; do mkdir -p "$d/$3"; cp "$2" "$d/$3/gorun"; echo mark 0 >"$d/$3/checked"; mv "$d" "$d.$$"; rm -rf "$d.$$"; done ;;
	links) for d in "$1/.cache/gorun" /var/tmp/gorun-65534; do ln -s $mine "$d"; rm -f "$d"; rm -rf "$d"; done ;;
	files) for d in "$1/.cache/gorun" /var/tmp/gorun-65534; do mkfifo "$d"; rm -f "$d"; ln "$2" "$d"; rm -f "$d"; f=$d/$3/gorun; rm -f "$f"; mkfifo "$f"; rm -f "$f"; ln $mine/$3/gorun "$f"; done ;;
	esac; sleep 0.02
done 2>/dev/null`

// S7: a user who can write the home, the cache in /var/tmp and everything but the files of the
// ranks' user gets no program run.
func TestStagingAgainstAnotherUser(t *testing.T) {
	c := lab.MustNamespacesAs(t, 65534, lab.Specs(1)...)
	home := userHome(t, c)
	folder := installed(t, c)
	wins := filepath.Join(c.Dir, "wins") // who ran the evil program
	evil := filepath.Join(c.Dir, "evil")
	must.OK(t, os.WriteFile(evil, []byte("#!/bin/sh\nid -u >>"+wins+"\nexit 1\n"), 0o755))
	must.OK(t, os.WriteFile(wins, nil, 0o666))
	must.OK(t, os.Chmod(wins, 0o666))
	root := func(script string) {
		t.Helper()
		out, err := onAs(t, c, "f1", 0, script, home).CombinedOutput()
		must.That(t, err == nil, "%s: %v: %s", script, err, out)
	}
	root("mount -t tmpfs -o mode=1777 tmpfs /var/tmp")
	if out, err := onAs(t, c, "f1", attacker, `"$1"`, evil).CombinedOutput(); err == nil {
		t.Fatalf("the evil program does nothing: %s", out)
	}
	for _, mode := range []string{"755", "777"} {
		root(`chmod ` + mode + ` "$1"; rm -rf "$1/.cache"; mkdir -m ` + mode +
			` "$1/.cache" && chown 65534:65534 "$1/.cache"; rm -rf /var/tmp/*`)
		var attacks []*exec.Cmd
		for _, what := range []string{"own", "dirs", "links", "files"} {
			cmd := onAs(t, c, "f1", attacker, attackScript, home, evil, folder, what)
			must.OK(t, cmd.Start())
			attacks = append(attacks, cmd)
		}
		runs := 0
		ran := 0
		for end := time.Now().Add(attackTime(t) / 2); runs < 3 || time.Now().Before(end); runs++ {
			r := command.StartPath(t, c, filepath.Join(home, "bin/gorun"), nil, "--wdir", "/", "-H", "f1", "true")
			switch code := r.Wait(); {
			case code == 0:
				ran++
			case code != 125 || !strings.Contains(r.Err.String(), "f1: "):
				t.Errorf("exit code %d: %s", code, &r.Err)
			}
			root(`rm -rf "$1"/.cache/gorun/* /var/tmp/gorun-65534`)
		}
		for _, cmd := range attacks {
			_ = cmd.Cancel()
			_ = cmd.Wait()
		}
		t.Logf("home %s: %d of %d jobs ran", mode, ran, runs)
		if mode == "755" && ran < runs { // the attacker has only what gorun does not need
			t.Errorf("%d of %d jobs ran in a home that is safe", ran, runs)
		}
	}
	text, err := os.ReadFile(wins)
	lines := strings.Fields(string(text))
	check.That(t, err == nil && len(lines) >= 1 && !strings.Contains(string(text), "65534") &&
		!strings.Contains(string(text), "\n0\n"), "who ran the evil program: %q, %v", lines, err)
}

// Where the home cannot hold gorun, other places are tried; only if none works is it an error.
func TestStagingFallsBackToOtherFolders(t *testing.T) {
	c := lab.MustNamespacesAs(t, 65534, lab.Specs(1)...)
	home := userHome(t, c)
	folder := installed(t, c)
	root := func(script string) string {
		t.Helper()
		out := must.Run(t, onAs(t, c, "f1", 0, script, home, folder))
		return string(out)
	}
	root("mount -t tmpfs -o mode=1777 tmpfs /var/tmp")
	for _, options := range []string{"ro,mode=755,uid=65534", "noexec,mode=755,uid=65534",
		"size=64k,mode=755,uid=65534", "mode=777,uid=65534", "mode=755,uid=65533"} {
		root(`rm -rf /var/tmp/*; mount -t tmpfs -o ` + options + ` tmpfs "$1"`)
		for range 2 { // by an upload, then without
			command.StartPath(t, c, filepath.Join(home, "bin/gorun"), nil, "--wdir", "/", "-H", "f1", "true").Want(0)
		}
		got := root(`stat -c "%a %u" /var/tmp/gorun-65534 /var/tmp/gorun-65534/$2/gorun; ls -A /var/tmp/gorun-65534/$2`)
		check.Equal(t, got, "700 65534\n500 65534\nchecked\ngorun\n", options)
		root(`umount "$1"`)
	}
	root(`rm -rf /var/tmp/*; mount -t tmpfs -o ro,mode=755,uid=65534 tmpfs "$1"; mount -t tmpfs -o noexec,mode=1777 tmpfs /var/tmp`)
	command.StartPath(t, c, filepath.Join(home, "bin/gorun"), nil, "--wdir", "/", "-H", "f1", "true").Want(125, "f1: ",
		"no directory will do",
		"Read-only file system", "/var/tmp/gorun-65534/"+folder+": programs cannot run there")
	root(`umount "$1" && chmod 777 "$1" && chmod 755 /var/tmp/gorun-65534 && chown 65533 /var/tmp/gorun-65534`)
	command.StartPath(t, c, filepath.Join(home, "bin/gorun"), nil, "--wdir", "/", "-H", "f1", "true").Want(125, "f1: ",
		"others can change "+home+" (drwxrwxrwx",
		"others can change /var/tmp/gorun-65534 (drwxr-xr-x, user 65533)")
}
