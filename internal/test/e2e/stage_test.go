package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/lab"
)

// workFolder makes a folder on the launcher's host that other hosts do not see.
func workFolder(t *testing.T, c *lab.Cluster, script string) string {
	t.Helper()
	dir := filepath.Join(userHome(t, c), "train it")
	changeFolder(t, c, dir, "mkdir -p . && "+script)
	return dir
}

// changeFolder runs a script in the folder on the launcher's host.
func changeFolder(t *testing.T, c *lab.Cluster, dir, script string) {
	t.Helper()
	if out, err := c.Command(t.Context(), "sh", "-c", `set -e; mkdir -p "$0"; cd "$0"; `+script, dir).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
}

// copyOn returns the path of a host's copy, as this machine sees it.
func copyOn(t *testing.T, c *lab.Cluster, host string) string {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(c.Host(host).Home, ".cache/gorun/work/*.json"))
	if len(found) != 1 {
		t.Fatalf("%s has the copies %q", host, found)
	}
	return strings.TrimSuffix(found[0], ".json")
}

func TestStageBringsTheFolderOnce(t *testing.T) {
	// Some hosts allow only one session at a time.
	c := lab.MustNamespacesAs(t, 65534, lab.Spec{Options: []string{"MaxSessions 1"}}, lab.Spec{Files: map[string]string{".profile": "echo welcome\n"}})
	dir := workFolder(t, c, `printf '#!/bin/sh\ncat data/in; echo $GORUN_HOSTNAME >>out' >run && chmod 755 run
		mkdir -p data empty .git && echo input >data/in && ln -s data/in link && echo x >skip.log && echo '*.log' >.gorunignore`)
	gorun := func(args ...string) *run {
		return startStaged(t, c, append([]string{"-v", "--prefix", "none", "-np", "4", "-H", "f1:2,f2:2", "--stage", dir}, args...)...)
	}
	r := gorun("./run").want(0, "f1: sent 3 files of 3", "f2: sent 3 files of 3")
	if got := r.out.String(); got != strings.Repeat("input\n", 4) {
		t.Errorf("%q", got)
	}
	for _, host := range []string{"f1", "f2"} {
		top := copyOn(t, c, host)
		if !strings.HasPrefix(filepath.Base(top), "train_it-") {
			t.Errorf("the copy is %s", top)
		}
		for name, want := range map[string]bool{"run": true, "empty": true, ".git": false, "skip.log": false, ".gorunignore": true} {
			if _, err := os.Stat(filepath.Join(top, name)); (err == nil) != want {
				t.Errorf("%s: %s: %v", host, name, err)
			}
		}
		if to, err := os.Readlink(filepath.Join(top, "link")); to != "data/in" {
			t.Errorf("%s: link to %q, %v", host, to, err)
		}
	}
	t.Run("again", func(t *testing.T) {
		gorun("./run").want(0, "f1: nothing to send: ", "f2: nothing to send: ")
		if text, _ := os.ReadFile(filepath.Join(copyOn(t, c, "f2"), "out")); string(text) != strings.Repeat("f2\n", 4) {
			t.Errorf("what ranks wrote: %q", text)
		}
	})
	t.Run("a change", func(t *testing.T) {
		changeFolder(t, c, dir, "echo more >>data/in; rm -r empty; mv link link2")
		r := gorun("--wdir", "data", "cat", "in").want(0, "f1: sent 1 file of 3")
		if got := r.out.String(); got != strings.Repeat("input\nmore\n", 4) {
			t.Errorf("%q", got)
		}
		if list, _ := filepath.Glob(filepath.Join(copyOn(t, c, "f1"), "*")); len(list) != 5 { // .gorunignore data link2 out run
			t.Errorf("the copy has %q", list)
		}
	})
	t.Run("in a directory of it", func(t *testing.T) {
		r := gorun("--wdir", dir+"/data", "pwd").want(0)
		if n := strings.Count(r.out.String(), "/data\n"); n != 4 {
			t.Errorf("%q", &r.out)
		}
		gorun("--wdir", "/tmp", "pwd").want(2, "--wdir /tmp is not in --stage "+dir)
	})
	t.Run("dry run", func(t *testing.T) {
		r := gorun("--dry-run", "./run").want(0)
		if want := "staged     " + dir + ": 3 files, "; !strings.Contains(r.out.String(), want) {
			t.Errorf("%q lacks %q", &r.out, want)
		}
	})
}

func TestStageToAFullDisk(t *testing.T) {
	c := lab.MustNamespacesAs(t, 65534, lab.Specs(2)...)
	dir := workFolder(t, c, "head -c 30000000 /dev/urandom >big")
	full := `d=~/.cache/gorun/work; mkdir -p $d && mount -t tmpfs -o size=1m,mode=700,uid=65534 tmpfs $d`
	if out, err := onAs(t, c, "f1", 0, strings.ReplaceAll(full, "~", userHome(t, c))).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	startStaged(t, c, "-H", "f1,f2", "--stage", dir, "true").want(125, "f1: stage "+dir+": ", "no space left on device")
}

func TestStageToASharedHomeAndHere(t *testing.T) {
	c := lab.MustNamespacesAs(t, 65534, lab.Spec{Home: "shared"}, lab.Spec{Home: "shared"}, lab.Spec{Home: "shared"})
	dir := workFolder(t, c, "echo hello >text")
	r := startStaged(t, c, "-v", "--prefix", "none", "-H", "f1,f2,f3,localhost", "--stage", dir, "sh", "-c", "cat text; pwd").want(0)
	if n := strings.Count(r.err.String(), ": sent 1 file of 1"); n != 1 {
		t.Errorf("sent to %d hosts:\n%s", n, &r.err)
	}
	if n := strings.Count(r.out.String(), "hello\n"); n != 4 || strings.Count(r.out.String(), dir+"\n") != 1 {
		t.Errorf("%q", &r.out)
	}
}

func TestStageOfAFolderThatHostsSee(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(1)...)
	dir := t.TempDir()
	r := start(t, c, "-v", "--prefix", "none", "-H", "f1", "--stage", dir, "pwd").want(0, "f1: it sees "+dir+" itself")
	if r.out.String() != dir+"\n" {
		t.Errorf("ran in %q", &r.out)
	}
}

func TestStageRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("big", strings.Repeat("x", 5000))
	// gorun checks the folder before it connects.
	stage := func(dir string, args ...string) *run {
		t.Helper()
		return start(t, nil, append(append([]string{"-H", "nohost.invalid", "--dry-run", "--stage", dir}, args...), "true")...)
	}
	stage(dir, "--stage-limit", "4K").want(2, "holds more than 4.1 kB, most of it in big", "hint: exclude files that ranks do not need", ".gorunignore")
	stage(dir+"/no").want(2, "no such folder")
	stage(dir+"/big").want(2, "is not a folder")
	write(".gorunignore", "# mine\n!x\n")
	stage(dir).want(2, ".gorunignore:2: \"!x\"")
	write(".gorunignore", "")
	if err := os.Symlink("/usr/bin/env", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	stage(dir).want(2, "the link "+dir+"/out leads to /usr/bin/env", "hint: make it point")
	write(".gorunignore", "/out\n")
	stage(dir).want(0)
	// Local ranks run in the folder itself.
	r := start(t, nil, "--prefix", "none", "--stage", dir, "--wdir", ".", "--stage-limit", "1", "pwd").want(0)
	if r.out.String() != dir+"\n" {
		t.Errorf("%q", &r.out)
	}
}
