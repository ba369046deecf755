package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
)

// These tests attack gorun within the limits of docs/security.md.

// attacker is a user on the hosts who has no relation to the ranks' account.
const attacker = 65533

// onAs runs a script on a host as a user; 0 is root.
func onAs(t *testing.T, c *lab.Cluster, host string, uid int, script string, args ...string) *exec.Cmd {
	t.Helper()
	id := strconv.Itoa(uid)
	argv := append([]string{"-t", strconv.Itoa(c.Host(host).PID), "-m", "-p", "--", "setpriv", "--reuid", id, "--regid", id, "--clear-groups",
		"--pdeathsig", "KILL", "sh", "-c", script, "sh"}, args...)
	cmd := exec.CommandContext(t.Context(), "nsenter", argv...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// attackTime returns how long an attack lasts. GORUN_ATTACK=10m is the long one.
func attackTime(t *testing.T) time.Duration {
	t.Helper()
	long, err := time.ParseDuration(os.Getenv("GORUN_ATTACK"))
	if err != nil {
		return 5 * time.Second
	}
	return long
}

// attackScript creates and removes programs, directories, links, pipes and hard links at the paths that gorun tries for itself.
// $1 is the home, $2 the evil program, $3 the hash, $4 the kind.
const attackScript = `cd /
mine=/var/tmp/evil; mkdir -p $mine/$3; cp "$2" $mine/$3/gorun; chmod 755 $mine/$3/gorun
while :; do
	case $4 in
	own) rm -rf "$1/bin"; mkdir -m 777 "$1/bin" && ln -s "$2" "$1/bin/gorun"; mv "$1/bin" "$1/bin.$$"; rm -rf "$1/bin.$$"; mkdir -m 777 "$1/bin"; cp "$2" "$1/bin/gorun" ;;
	dirs) for d in "$1/.cache/gorun" /var/tmp/gorun-65534; do mkdir -p "$d/$3"; cp "$2" "$d/$3/gorun"; mv "$d" "$d.$$"; rm -rf "$d.$$"; done ;;
	links) for d in "$1/.cache/gorun" /var/tmp/gorun-65534; do ln -s $mine "$d"; rm -f "$d"; rm -rf "$d"; done ;;
	files) for d in "$1/.cache/gorun" /var/tmp/gorun-65534; do mkfifo "$d"; rm -f "$d"; ln "$2" "$d"; rm -f "$d"; f=$d/$3/gorun; rm -f "$f"; mkfifo "$f"; rm -f "$f"; ln $mine/$3/gorun "$f"; done ;;
	esac; sleep 0.02
done 2>/dev/null`

// S7: a user who can write the home, the cache in /var/tmp and everything but the files of the ranks' user gets no program run.
func TestStagingAgainstAnotherUser(t *testing.T) {
	c := lab.MustNamespacesAs(t, 65534, lab.Specs(1)...)
	home := userHome(t, c)
	hash := installed(t, c)
	wins := filepath.Join(c.Dir, "wins") // who ran the evil program
	evil := filepath.Join(c.Dir, "evil")
	if err := os.WriteFile(evil, []byte("#!/bin/sh\nid -u >>"+wins+"\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(wins, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(wins, 0o666); err != nil {
		t.Fatal(err)
	}
	root := func(script string) {
		t.Helper()
		if out, err := onAs(t, c, "f1", 0, script, home).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
	}
	root("mount -t tmpfs -o mode=1777 tmpfs /var/tmp")
	if out, err := onAs(t, c, "f1", attacker, `"$1"`, evil).CombinedOutput(); err == nil {
		t.Fatalf("the evil program does nothing: %s", out)
	}
	for _, mode := range []string{"755", "777"} {
		root(`chmod ` + mode + ` "$1"; rm -rf "$1/.cache"; mkdir -m ` + mode + ` "$1/.cache" && chown 65534:65534 "$1/.cache"; rm -rf /var/tmp/*`)
		var attacks []*exec.Cmd
		for _, what := range []string{"own", "dirs", "links", "files"} {
			cmd := onAs(t, c, "f1", attacker, attackScript, home, evil, hash, what)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			attacks = append(attacks, cmd)
		}
		runs, ran := 0, 0
		for end := time.Now().Add(attackTime(t) / 2); runs < 3 || time.Now().Before(end); runs++ {
			r := startPath(t, c, filepath.Join(home, "bin/gorun"), nil, "--wdir", "/", "-H", "f1", "true")
			switch code := r.wait(); {
			case code == 0:
				ran++
			case code != 125 || !strings.Contains(r.err.String(), "f1: "):
				t.Errorf("exit code %d: %s", code, &r.err)
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
	if lines := strings.Fields(string(text)); err != nil || len(lines) < 1 || strings.Contains(string(text), "65534") || strings.Contains(string(text), "\n0\n") {
		t.Errorf("who ran the evil program: %q, %v", lines, err)
	}
}

// Where the home cannot hold gorun, other places are tried; only if none works is it an error.
func TestStagingFallsBackToOtherFolders(t *testing.T) {
	c := lab.MustNamespacesAs(t, 65534, lab.Specs(1)...)
	home := userHome(t, c)
	hash := installed(t, c)
	root := func(script string) string {
		t.Helper()
		out, err := onAs(t, c, "f1", 0, script, home, hash).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
		return string(out)
	}
	root("mount -t tmpfs -o mode=1777 tmpfs /var/tmp")
	for _, options := range []string{"ro,mode=755,uid=65534", "noexec,mode=755,uid=65534", "size=64k,mode=755,uid=65534", "mode=777,uid=65534", "mode=755,uid=65533"} {
		root(`rm -rf /var/tmp/*; mount -t tmpfs -o ` + options + ` tmpfs "$1"`)
		for range 2 { // by an upload, then without
			startPath(t, c, filepath.Join(home, "bin/gorun"), nil, "--wdir", "/", "-H", "f1", "true").want(0)
		}
		if got := root(`stat -c "%a %u" /var/tmp/gorun-65534 /var/tmp/gorun-65534/$2/gorun; ls -A /var/tmp/gorun-65534/$2`); got != "700 65534\n500 65534\nchecked\ngorun\n" {
			t.Errorf("%s: %s", options, got)
		}
		root(`umount "$1"`)
	}
	root(`rm -rf /var/tmp/*; mount -t tmpfs -o ro,mode=755,uid=65534 tmpfs "$1"; mount -t tmpfs -o noexec,mode=1777 tmpfs /var/tmp`)
	startPath(t, c, filepath.Join(home, "bin/gorun"), nil, "--wdir", "/", "-H", "f1", "true").want(125, "f1: ", "no directory will do",
		"Read-only file system", "/var/tmp/gorun-65534/"+hash+": programs cannot run there")
	root(`umount "$1" && chmod 777 "$1" && chmod 755 /var/tmp/gorun-65534 && chown 65533 /var/tmp/gorun-65534`)
	startPath(t, c, filepath.Join(home, "bin/gorun"), nil, "--wdir", "/", "-H", "f1", "true").want(125, "f1: ", "others can change "+home+" (drwxrwxrwx",
		"others can change /var/tmp/gorun-65534 (drwxr-xr-x, user 65533)")
}

// installed copies gorun into the launcher's home and returns the path of its cache.
func installed(t *testing.T, c *lab.Cluster) (hash string) {
	t.Helper()
	script := `mkdir -p ~/bin && cp "$0" ~/bin/gorun && sha256sum ~/bin/gorun | cut -c1-16`
	out, err := c.Command(t.Context(), "sh", "-c", script, binary("gorun")).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// userCommand returns a command of a user on this machine.
func userCommand(uid int, argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	return cmd
}

// Every transport asks only for a session that runs a command: agents, X11 and ports are not forwarded, even if the user's
// configuration asks for it and the host allows it.
func TestNothingIsForwarded(t *testing.T) {
	lab.Need(t, "ssh")
	c := lab.MustLoopback(t, lab.Spec{Options: []string{"LogLevel DEBUG3", "AllowAgentForwarding yes", "X11Forwarding yes"}})
	text, err := os.ReadFile(c.ConfigFile)
	if err != nil {
		t.Fatal(err)
	}
	asks := "Host *\n  ForwardAgent yes\n  ForwardX11 yes\n  LocalForward 127.0.0.1:17771 127.0.0.1:1\n  RemoteForward 17772 127.0.0.1:1\n"
	if err := os.WriteFile(c.ConfigFile, append([]byte(asks), text...), 0o644); err != nil {
		t.Fatal(err)
	}
	env := []string{"DISPLAY=:77", "SSH_AUTH_SOCK=" + filepath.Join(c.Dir, "none")}
	for _, how := range [][]string{nil, {"--launcher", "system-ssh"}} {
		startIn(t, c, env, append(how, "-H", "f1", "true")...).want(0)
	}
	log, err := os.ReadFile(c.Host("f1").Log)
	if err != nil || strings.Count(string(log), "server_input_channel_req: channel 0 request exec") < 2 {
		t.Errorf("sshd does not tell of requests: %v: %.2000s", err, log)
	}
	for _, word := range []string{"auth-agent-req", "x11-req", "tcpip-forward", "direct-tcpip", "streamlocal-forward", "request pty-req", "request env"} {
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, word) && (strings.Contains(line, "request") || strings.Contains(line, "ctype")) {
				t.Errorf("%s", line)
			}
		}
	}
}

// Files that gorun creates belong to the user alone, also with a umask of 0, and gorun never changes an owner.
func TestFilesAreTheUsersOwn(t *testing.T) {
	c := lab.MustNamespacesAs(t, 65534, lab.Specs(1)...)
	home := userHome(t, c)
	dir := filepath.Join(home, "work")
	if out, err := c.Command(t.Context(), "sh", "-c", `mkdir "$0" && echo x >"$0/file" && chmod 640 "$0/file"`, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	installed(t, c)
	list := func(host string) map[string]string {
		t.Helper()
		out, err := onAs(t, c, host, 0, `find "$1" /var/tmp /dev/shm -printf '%p\t%m %U %G %y\n'`, home).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		all := map[string]string{}
		for line := range strings.Lines(string(out)) {
			name, what, _ := strings.Cut(strings.TrimSpace(line), "\t")
			all[name] = what
		}
		return all
	}
	if out, err := onAs(t, c, "f1", 0, `mkdir "$1/others" && echo x >"$1/others/file" && chown -R 65533:65533 "$1/others"`, home).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	logs := filepath.Join(c.Dir, "logs")
	if err := os.Mkdir(logs, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(logs, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	before := list("f1")
	old := syscall.Umask(0)
	r := startPath(t, c, filepath.Join(home, "bin/gorun"), nil, "-H", "f1", "--stage", dir, "--json-events", logs+"/events",
		"--output-filename", logs+"/out", "--stdout-file", logs+"/all", "echo", "hello")
	syscall.Umask(old)
	r.want(0)
	seen := 0
	for name, what := range list("f1") {
		switch was, known := before[name]; {
		case known && was != what:
			t.Errorf("%s was %s and is %s", name, was, what)
		case !known:
			seen++
			mode, owner, _ := strings.Cut(what, " ")
			staged := filepath.Base(name) == "file" && mode == "640"
			if !strings.HasPrefix(owner, "65534 65534 ") || !strings.HasSuffix(mode, "00") && !staged {
				t.Errorf("%s is %s", name, what)
			}
		}
	}
	err := filepath.WalkDir(logs, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		seen++
		info, err := os.Lstat(path)
		if err == nil && info.Mode().Perm()&0o77 != 0 {
			t.Errorf("%s is %v", path, info.Mode())
		}
		return err
	})
	if err != nil || seen < 10 {
		t.Errorf("only %d new files, %v", seen, err)
	}
}

// userHome returns the path of the home directory, the same on every host of c.
func userHome(t *testing.T, c *lab.Cluster) string {
	t.Helper()
	home, err := c.Command(t.Context(), "sh", "-c", "cd && pwd").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(home))
}
