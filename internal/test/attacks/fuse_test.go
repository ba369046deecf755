package attacks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// disguises are names of file systems that read like other parts of a line of mountinfo, or cannot
// be read. fusermount takes any name.
func disguises() []string {
	return []string{"evil", "-", ",user_id=0,", "x\vuser_id=0", "user_id=0\rx", "\xff"}
}

// mirage shows the files below a folder at a mount point on f1 as the victim's, by a process of the
// attacker. Every owner and mode that a program asks for is the attacker's choice then.
func mirage(t *testing.T, c *lab.Cluster, source, mount, name string) {
	t.Helper()
	asOn(t, c, attacker, `mkdir -p "$1"`, mount) // as fusermount asks
	mountMirage(t, c, source, mount, name)
	must.Equal(t, asOn(t, c, victim, `stat -c '%u %a' "$1"`, mount), "65534 700\n", mount, "is of")
}

// mountMirage is mirage at a mount point that is there, which may be a file.
func mountMirage(t *testing.T, c *lab.Cluster, source, mount, name string) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		lab.Skip(t, "needs /dev/fuse")
	}
	out := serveMirage(t, c, `exec "$@"`, source, mount, name)
	must.Until(t, "the mount", func() bool {
		must.That(t, !strings.Contains(out.String(), "fuse: "), "%v", out.String())
		return strings.Contains(out.String(), "ready")
	})
}

// serveMirage starts a script of root that ends in the program fuse, and ends it with the test.
func serveMirage(t *testing.T, c *lab.Cluster, script, source, mount, name string) *command.Output {
	t.Helper()
	var out command.Output
	cmd := onAs(t, c, "f1", 0, script, command.Binary("fuse"), source, mount, "65534", "65533", name)
	cmd.Stdout = &out
	cmd.Stderr = &out
	must.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Cancel()
		_ = cmd.Wait()
	})
	return &out
}

// asOn runs a script on f1 as a user and returns its output.
func asOn(t *testing.T, c *lab.Cluster, uid int, script string, args ...string) string {
	t.Helper()
	out := must.Run(t, onAs(t, c, "f1", uid, script, args...))
	return string(out)
}

// evilGorun puts a program of the attacker in the place of a staged gorun below the folder theirs.
// It says who runs it in the file wins.
func evilGorun(s *commons, folder string) {
	s.Helper()
	s.as(0, `: >wins && chmod 666 wins`)
	s.as(attacker, `mkdir theirs/`+folder+` && cd theirs/`+folder+` && printf '#!/bin/sh\nid -u >>`+s.dir+
		`/wins\n' >gorun && chmod 755 gorun && sleep .1 && echo mark 0 >checked`)
}

func noWins(s *commons) {
	s.Helper()
	if wins := s.as(0, `cat wins`); wins != "" {
		s.Errorf("the attacker's program was run by %q", wins)
	}
}

// A gorun that another user's process shows as the victim's own, in the victim's own directory, is
// not run.
func TestStagedGorunOfAnotherUsersFileSystemIsNotRun(t *testing.T) {
	for _, name := range disguises() {
		t.Run(strconv.Quote(name), func(t *testing.T) { stageBesideMirage(t, name) })
	}
}

func stageBesideMirage(t *testing.T, name string) {
	c := lab.MustNamespacesAs(t, victim, lab.Spec{Env: []string{"LC_ALL=C.UTF-8"}})
	s := newCommons(t, c.Dir)
	home := userHome(t, c)
	folder := installed(t, c)
	evilGorun(s, folder)
	asOn(t, c, 0, "mount -t tmpfs -o mode=1777 tmpfs /var/tmp")
	mirage(t, c, filepath.Join(c.Dir, "theirs"), "/var/tmp/gorun-65534", name)
	// else nothing is shown
	asOn(t, c, victim, `/var/tmp/gorun-65534/$1/gorun && grep -x 65534 $2 && : >$2`, folder,
		filepath.Join(c.Dir, "wins"))

	gorun := filepath.Join(home, "bin/gorun")
	command.StartPath(t, c, gorun, nil, "--wdir", "/", "-H", "f1", "true").Want(0) // from the home
	asOn(t, c, 0, `mount -t tmpfs -o ro,mode=755,uid=65534 tmpfs "$1"`, home)
	command.StartPath(t, c, gorun, nil, "--wdir", "/", "-H", "f1", "true").Want(125, "f1: ",
		"not safe, others can change /var/tmp/gorun-65534 (a file system of another user)")
	noWins(s)
}

// Neither is one that only has its place in the victim's directory, mounted on the file.
func TestFileOfAnotherUsersFileSystemIsNotGorun(t *testing.T) {
	for _, name := range disguises() {
		t.Run(strconv.Quote(name), func(t *testing.T) { startMirage(t, name) })
	}
}

func startMirage(t *testing.T, name string) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	s := newCommons(t, c.Dir)
	gorun := filepath.Join(userHome(t, c), "bin/gorun")
	folder := installed(t, c)
	evilGorun(s, folder)
	asOn(t, c, victim, `mkdir -p "${1%/*}" && : >"$1"`, gorun)
	mountMirage(t, c, filepath.Join(c.Dir, "theirs", folder, "gorun"), gorun, name)
	// else nothing is shown
	asOn(t, c, victim, `"$1" && grep -x 65534 $2 && : >$2`, gorun, filepath.Join(c.Dir, "wins"))
	command.StartPath(t, c, gorun, nil, "--wdir", "/", "-H", "f1", "true").Want(0) // from the cache
	noWins(s)
}

// striker is in the place of ls and grep on the host: at one of their calls it lets the attacker
// mount, before the real program runs. $0 is its own path, and its folder has the number of the
// call.
const striker = `#!/bin/sh
dir=${0%/*}
echo call >>$dir/calls
if [ $(wc -l <$dir/calls) = $(cat $dir/when) ]; then
	: >$dir/strike
	until [ "$(stat -c %a /var/tmp/gorun-65534)" = 700 ]; do sleep .01; done
fi
PATH=/usr/bin:/bin exec ${0##*/} "$@"
`

// The attacker mounts in the middle of the checks on the host, between any two of its commands.
// Before, the path is the attacker's directory.
func TestMountDuringTheChecksIsNotRun(t *testing.T) {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		lab.Skip(t, "needs /dev/fuse")
	}
	tools := t.TempDir()
	c := lab.MustNamespacesAs(t, victim, lab.Spec{Env: []string{"PATH=" + tools + ":/usr/bin:/bin"}})
	s := newCommons(t, c.Dir)
	s.as(0, fmt.Sprintf(`chmod 755 %[1]s/.. && chmod 777 %[1]s`, tools))
	for _, tool := range []string{"ls", "grep"} {
		must.OK(t, os.WriteFile(filepath.Join(tools, tool), []byte(striker), 0o755))
	}
	home := userHome(t, c)
	folder := installed(t, c)
	evilGorun(s, folder)
	asOn(t, c, 0, `mount -t tmpfs -o mode=1777 tmpfs /var/tmp && mount -t tmpfs -o ro,mode=755,uid=65534 tmpfs "$1"`,
		home)
	for when := 1; ; when++ {
		s.as(0, fmt.Sprintf(`cd %s && rm -f strike && : >calls && echo %d >when && chmod 666 calls`, tools, when))
		asOn(t, c, attacker, `mkdir -m 755 /var/tmp/gorun-65534`)
		serveMirage(t, c, `until [ -e `+tools+`/strike ]; do sleep .01; done; exec "$@"`,
			filepath.Join(c.Dir, "theirs"), "/var/tmp/gorun-65534", ",user_id=0,")
		r := command.StartPath(t, c, filepath.Join(home, "bin/gorun"), nil, "--wdir", "/", "-H", "f1", "true")
		if code := r.Wait(); code != 125 || !strings.Contains(r.Err.String(),
			"not safe, others can change /var/tmp/gorun-65534 (") {
			t.Errorf("a mount at call %d: exit code %d: %s", when, code, &r.Err)
		}
		noWins(s)
		asOn(t, c, 0, `umount -l /var/tmp/gorun-65534 2>/dev/null; rmdir /var/tmp/gorun-65534`)
		calls, err := strconv.Atoi(strings.TrimSpace(s.as(0, `wc -l <`+tools+`/calls`)))
		must.That(t, err == nil && !t.Failed(), "%v, of %d calls", err, calls)
		if calls < when {
			t.Logf("%d calls", calls)
			return
		}
	}
}

// A file that another user's process shows as the victim's, with the bytes, time and mode of what
// is copied, is not taken for the copy: the process may show others later.
func TestFileOfAnotherUsersFileSystemIsNotTheCopy(t *testing.T) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	s := newCommons(t, c.Dir)
	s.as(0, `chmod 1777 open && echo secret >file && chmod 500 file && chown 65534:65534 file &&
		cp -p file theirs/file && chmod 644 theirs/file`)
	s.as(attacker, `: >open/file`)
	shown := filepath.Join(c.Dir, "open/file")
	mountMirage(t, c, filepath.Join(c.Dir, "theirs/file"), shown, "evil")
	must.Equal(t, asOn(t, c, victim, `stat -c '%u %a' "$1" && cat "$1"`, shown), "65534 500\nsecret\n")
	r := command.Start(t, c, "cp", filepath.Join(c.Dir, "file"), "f1:"+filepath.Dir(shown))
	code := r.Wait()
	r.NothingLeft(10 * time.Second) // the agent that fails ends by itself
	must.That(t, code == 1 && strings.Contains(r.Err.String(), "replace "+shown), "exit code %d: %s", code, &r.Err)
}

// Configuration, programs beside gorun and output folders that another user's process shows as the
// victim's own are refused.
func TestFileSystemsOfAnotherUserAreNotTrusted(t *testing.T) {
	for _, name := range disguises() {
		t.Run(strconv.Quote(name), func(t *testing.T) { readMirage(t, name) })
	}
}

func readMirage(t *testing.T, name string) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	s := newCommons(t, c.Dir)
	s.as(0, `chmod 1777 open && : >wins && chmod 666 wins`)
	s.as(attacker, `mkdir theirs/gorun && cd theirs && printf '#!/bin/sh\nid -u >>`+c.Dir+
		`/wins\n' >gorun-bench && chmod 755 gorun-bench &&
		printf 'launcher: rsh\nlaunch-agent: `+c.Dir+`/theirs/gorun-bench\n' >gorun/config.yaml && mkdir logs &&
		echo ProxyCommand `+c.Dir+`/theirs/gorun-bench >ssh`)
	mount := filepath.Join(c.Dir, "open/mirage")
	mirage(t, c, filepath.Join(c.Dir, "theirs"), mount, name)
	for _, tc := range []struct{ env, args string }{
		{"XDG_CONFIG_HOME=" + mount, "-H elsewhere true"},
		{"", "-np 1 --output-filename " + mount + "/logs true"},
		{"", "-np 1 --result-dir " + mount + "/logs true"},
		{"", "-np 1 --stdout-file " + mount + "/file true"},
		{"", "-np 1 --json-events " + mount + "/new true"},
	} {
		out, err := onAs(t, c, "f1", victim, `exec env HOME=/nonexistent "$@"`, append(strings.Fields(tc.env),
			append([]string{command.Binary("gorun")}, strings.Fields(tc.args)...)...)...).CombinedOutput()
		check.That(t, err != nil && strings.Contains(err.Error(), "exit status 2") &&
			strings.Contains(string(out), "not safe, others can change "+mount) &&
			strings.Contains(string(out), "a file system of user 65533"), "%v: %v: %s", tc, err, out)
	}
	s.as(victim, "echo Include "+mount+"/ssh >private/ssh")
	reached, err := onAs(t, c, "f1", victim, `exec env HOME=/nonexistent "$@"`, command.Binary("gorun"), "-F",
		filepath.Join(c.Dir, "private/ssh"), "-H", "elsewhere", "true").CombinedOutput()
	check.That(t, err != nil && strings.Contains(string(reached), "not safe, others can change "+mount+
		"/ssh (a file system of user 65533)"), "%v: %s", err, reached)
	s.as(0, `mkdir private/mirage && echo secret >private/mirage/logs && chown -R 65534:65534 private/mirage`)
	brought, err := onAs(t, c, "f1", victim, `exec env HOME=/nonexistent "$@"`, command.Binary("gorun"), "cp",
		"localhost:"+filepath.Join(c.Dir, "private/mirage"), filepath.Dir(mount)).CombinedOutput()
	check.That(t, err != nil && strings.Contains(string(brought), "not safe, others can change "+mount+
		" (a file system of user 65533)"), "%v: %s", err, brought)
	noWins(s)
	s.as(attacker, `cd theirs/gorun && printf '{"id":"a2b3","state":"ended","ended":"%s"}\n' `+
		`"$(date -u +%FT%TZ)" >history.jsonl`)
	out, err := onAs(t, c, "f1", victim, `exec env HOME=/nonexistent XDG_STATE_HOME="$@"`, mount,
		command.Binary("gorun"), "ps", "-a").CombinedOutput()
	must.That(t, err != nil && strings.Contains(string(out), "a file system of user 65533"), "%v: %s", err, out)
}

// A folder that another user's process shows on a host, where the staged one is here and with its
// inodes and times, is not taken for it: ranks would run what the process likes.
func TestFolderOfAnotherUsersFileSystemIsNotTheStagedOne(t *testing.T) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	s := newCommons(t, c.Dir)
	s.as(0, `mkdir -m 1777 scratch`)
	s.as(victim, `mkdir scratch/work && touch scratch/work/train.py`)
	scratch := filepath.Join(c.Dir, "scratch")
	work := filepath.Join(scratch, "work")
	asOn(t, c, 0, `mkdir "$1/real" && mount --bind "$2" "$1/real" && mount -t tmpfs -o mode=1777 tmpfs "$2"`, c.Dir,
		scratch)
	mirage(t, c, filepath.Join(c.Dir, "real/work"), work, "evil")
	r := command.Start(t, c, "-H", "f1", "--stage", work, "sh", "-c", "pwd && ls").Want(0)
	must.That(t, strings.Contains(r.Out.String(), "/.cache/gorun/work/"), "the rank runs in %s", &r.Out)
}

// A folder that another user's process shows where the staged one is here, and of which it answers
// nothing, holds no job up.
func TestSilentFolderIsNotAwaitedForTheStagedOne(t *testing.T) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	s := newCommons(t, c.Dir)
	s.as(0, `mkdir -m 1777 scratch`)
	s.as(victim, `mkdir scratch/work && touch scratch/work/train.py`)
	scratch := filepath.Join(c.Dir, "scratch")
	work := filepath.Join(scratch, "work")
	asOn(t, c, 0, `mount -t tmpfs -o mode=1777 tmpfs "$1"`, scratch)
	asOn(t, c, attacker, `mkdir "$1"`, work)
	mountMirage(t, c, filepath.Join(c.Dir, "theirs"), work, "silent")
	r := command.Start(t, c, "-H", "f1", "--stage", work, "sh", "-c", "pwd && ls").Want(0)
	must.That(t, strings.Contains(r.Out.String(), "/.cache/gorun/work/"), "the rank runs in %s", &r.Out)
}

// mountScratch mounts a folder in which everybody may write, and returns its path. A new file
// system gives the first folders the same numbers as another one.
func mountScratch(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		lab.Skip(t, "needs root to mount")
	}
	scratch := t.TempDir()
	must.Run(t, exec.Command("sh", "-c", `chmod 755 "$0/.." && exec mount -t tmpfs -o mode=1777 tmpfs "$0"`, scratch))
	t.Cleanup(func() { must.Run(t, exec.Command("umount", "-l", scratch)) })
	return scratch
}

// Neither is one in a folder of another user's own that has the number of the staged one.
func TestSilentFolderIsNotAwaitedInTheStagedOnesPlace(t *testing.T) {
	scratch := mountScratch(t)
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	work := filepath.Join(scratch, "work")
	s := newCommons(t, c.Dir)
	s.as(victim, fmt.Sprintf(`mkdir -p %[1]s && cd %[1]s && : >train.py && sleep 0.1 && echo mine >>train.py`,
		filepath.Join(work, "src")))
	number := asOn(t, c, victim, `stat -c %i "$1"`, work)
	asOn(t, c, 0, `mount -t tmpfs -o mode=1777 tmpfs "$1"`, scratch)
	asOn(t, c, attacker, `mkdir -p "$1/src"`, work)
	must.Equal(t, asOn(t, c, victim, `stat -c %i "$1"`, work), number, "the number of the attacker's folder")
	mountMirage(t, c, filepath.Join(c.Dir, "theirs"), filepath.Join(work, "src"), "silent")
	asOn(t, c, attacker, `touch "$1"`, work) // as a folder that a job changes
	r := command.Start(t, c, "-H", "f1", "--stage", work, "sh", "-c", "pwd && ls").Want(0)
	must.That(t, strings.Contains(r.Out.String(), "/.cache/gorun/work/"), "the rank runs in %s", &r.Out)
}

// A folder of another user's own that has the number of the staged one, and in which a process of
// theirs shows files with the numbers and times of the staged ones, is not taken for it either. On
// many file systems a user has a say in the number of a new folder, and nowhere in its time.
func TestFolderThatHoldsAnotherUsersFileSystemIsNotTheStagedOne(t *testing.T) {
	scratch := mountScratch(t)
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	newCommons(t, c.Dir).as(victim, fmt.Sprintf(`mkdir %[1]s/work && echo mine >%[1]s/work/train.py`, scratch))
	work := filepath.Join(scratch, "work")
	number := asOn(t, c, victim, `stat -c %i "$1"`, work)
	asOn(t, c, 0, `mkdir "$1/real" && mount --bind "$2" "$1/real" && mount -t tmpfs -o mode=1777 tmpfs "$2"`, c.Dir,
		scratch)
	asOn(t, c, attacker, `mkdir "$1" && : >"$1/train.py"`, work)
	must.Equal(t, asOn(t, c, victim, `stat -c %i "$1"`, work), number, "the number of the attacker's folder")
	shown := filepath.Join(work, "train.py")
	mountMirage(t, c, filepath.Join(c.Dir, "real/work/train.py"), shown, "evil")
	must.Equal(t, asOn(t, c, victim, `stat -c '%u %a' "$1"`, shown), "65534 500\n", shown, "is of")
	r := command.Start(t, c, "-H", "f1", "--stage", work, "sh", "-c", "pwd && ls").Want(0)
	must.That(t, strings.Contains(r.Out.String(), "/.cache/gorun/work/"), "the rank runs in %s", &r.Out)
}

// Neither a pack of a staged folder nor a host's key whose revocation is in question is kept in a
// file that another user's process serves, where TMPDIR leads: it would say what they hold.
func TestTemporaryFilesAreInNoFileSystemOfAnotherUser(t *testing.T) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(2)...)
	s := newCommons(t, c.Dir)
	s.as(0, `chmod 1777 open`)
	work := filepath.Join(userHome(t, c), "work")
	s.as(attacker, `mkdir theirs/tmp`)
	asOn(t, c, victim, `mkdir "$1" && echo mine >"$1/train.py"`, work)
	mount := filepath.Join(c.Dir, "open/mirage")
	mirage(t, c, filepath.Join(c.Dir, "theirs/tmp"), mount, "evil")
	out, err := onAs(t, c, "f1", victim, `exec env HOME="$@"`, filepath.Join(c.Dir, "private"), "TMPDIR="+mount,
		"GORUN_SSH_CONFIG="+c.ConfigFile, command.Binary("gorun"), "-H", "f2", "--stage", work, "cat",
		"train.py").CombinedOutput()
	check.That(t, err != nil && strings.Contains(string(out), "others can change "+mount+"/gorun-pack-") &&
		strings.Contains(string(out), "(a file system of user 65533)") && strings.Contains(string(out), "TMPDIR=DIR"),
		"%v: %s", err, out)
}

// What gorun.run returns is not read from a folder that another user's process shows as the
// victim's, where TMPDIR leads. The attacker unmounts it before gorun looks there, which the
// program in gorun's place stands for: it finds all well.
func TestResultsOfAnotherUsersFileSystemAreNotRead(t *testing.T) {
	lab.Need(t, "python3")
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	s := newCommons(t, c.Dir)
	s.as(0, `chmod 1777 open`)
	s.as(attacker, `mkdir theirs/tmp`)
	planted := filepath.Join(c.Dir, "theirs/planted")
	gorun := filepath.Join(c.Dir, "open/gorun")
	must.OK(t, os.WriteFile(gorun, []byte("#!/bin/sh\nuntil [ -e "+planted+" ]; do sleep .01; done\n"), 0o755))
	mount := filepath.Join(c.Dir, "open/mirage")
	mirage(t, c, filepath.Join(c.Dir, "theirs/tmp"), mount, "evil")
	const plant = `import os, sys, time
from gorun import _data
made = []
while not made:
    made = [name for name in os.listdir("theirs/tmp") if name.startswith("gorun-")]
    time.sleep(.01)
folder = "theirs/tmp/%s/rank.0" % made[0]
os.mkdir(folder)
with open(folder + "/result", "wb") as result:
    result.write(_data.dump(("value", "of another user")))
open("theirs/planted", "w").close()
`
	python := func(uid int, text string) *exec.Cmd {
		return onAs(t, c, "f1", uid, `cd "$1" && shift && exec env "$@"`, c.Dir, "PYTHONPATH="+
			filepath.Join(root, "ring/python"), "PYTHONDONTWRITEBYTECODE=1", "GORUN_PROGRAM="+gorun, "TMPDIR="+mount,
			"python3", "-c", text)
	}
	planting := python(attacker, plant)
	must.OK(t, planting.Start())
	t.Cleanup(func() { _ = planting.Wait() })
	out, err := python(victim, `import os, tempfile, gorun
tempfile.tempdir = os.environ["TMPDIR"]
print(gorun.run(max, (1, 2), np=1))`).CombinedOutput()
	check.That(t, err != nil && strings.Contains(string(out), "set TMPDIR to a folder of yours"), "%v: %s", err, out)
}

// A dump of PyTorch's flight recorder that another user's process shows as the rank's own is not
// opened: the process may never answer.
func TestDumpOfAnotherUsersFileSystemIsNotRead(t *testing.T) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	s := newCommons(t, c.Dir)
	s.as(0, `chmod 1777 open`)
	s.as(attacker, `mkdir theirs/dumps && echo dump >theirs/dumps/dump0`)
	mount := filepath.Join(c.Dir, "open/mirage")
	mirage(t, c, filepath.Join(c.Dir, "theirs/dumps"), mount, "evil")
	pipe := filepath.Join(c.Dir, "open/pipe")
	s.as(victim, `mkfifo open/pipe0.pipe`)
	r := command.Start(t, c, "--name", "job", "-H", "f1", "-x", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE="+pipe, "-x",
		"TORCH_NCCL_DEBUG_INFO_TEMP_FILE="+mount+"/dump", "--wdir", "/", "sh", "-c", `exec 3<>$1; echo ready; exec sleep 1000`,
		"sh", pipe+"0.pipe")
	must.Until(t, "the rank", func() bool { return strings.Contains(r.Out.String(), "ready") })
	said := command.Start(t, c, "stacks", "--full", "job")
	said.Wait()
	check.That(t, strings.Contains(said.Out.String(), "not safe, others can change "+mount+
		"/dump0 (a file system of user 65533)"), "gorun stacks says\n%s%s", &said.Out, &said.Err)
}

// A process of another user that answers nothing holds nobody up where gorun itself looks for a
// folder: in /var/tmp for gorun and for a Python environment, and in XDG_RUNTIME_DIR for gorun and
// for jobs.
func TestSilentFileSystemsOfAnotherUserAreNotAwaited(t *testing.T) {
	hosts := lab.Specs(1)
	hosts[0].Options = []string{"SetEnv XDG_RUNTIME_DIR=/dev/shm"}
	c := lab.MustNamespacesAs(t, victim, hosts...)
	newCommons(t, c.Dir)
	asOn(t, c, 0, "mount -t tmpfs -o mode=1777 tmpfs /var/tmp")
	places := []string{"/var/tmp/gorun-65534", "/dev/shm/gorun"}
	runtime := filepath.Join(c.Dir, "open/gorun")
	asOn(t, c, attacker, `mkdir "$1"`, runtime)
	mountMirage(t, c, filepath.Join(c.Dir, "theirs"), runtime, "silent")
	installed(t, c)
	home := userHome(t, c)
	env := filepath.Join(home, "env")
	must.Run(t, c.Command(t.Context(), "sh", "-c",
		`mkdir -p "$0/bin" && : >"$0/pyvenv.cfg" && ln -s /bin/true "$0/bin/python"`, env))
	gorun := filepath.Join(home, "bin/gorun")
	start := func() {
		asOn(t, c, victim, `rm -rf "$1/.cache"`, home)
		command.StartPath(t, c, gorun, nil, "--wdir", "/", "-H", "f1", "true").Want(0)
		command.StartPath(t, c, gorun, nil, "--wdir", "/", "-H", "f1", "--stage-env", env, "true").Want(0)
	}
	for _, place := range places { // a link, which fs.protected_symlinks may forbid to follow, and a folder
		asOn(t, c, attacker, `ln -s "$1" "$2"`, runtime, place)
		start()
		asOn(t, c, attacker, `rm "$1" && mkdir "$1"`, place)
		mountMirage(t, c, filepath.Join(c.Dir, "theirs"), place, "silent")
		start()
	}
	for _, words := range []string{"ps", "-np 1 true"} {
		out, err := onAs(t, c, "f1", victim, `exec env HOME=/proc XDG_RUNTIME_DIR="$@"`, append([]string{
			filepath.Dir(runtime), command.Binary("gorun")}, strings.Fields(words)...)...).CombinedOutput()
		check.OK(t, err, words, string(out))
	}
}

// Nor is one that is on the way to the path that gorun has on the launcher's machine, nor is a link
// to one followed there, whatever the list of mounts makes of its blanks.
func TestSilentFileSystemInThePlaceOfGorunIsNotAwaited(t *testing.T) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	s := newCommons(t, c.Dir)
	s.as(0, `mkdir -m 777 "a scratch" && mkdir "a scratch/bin" && cp `+command.Binary("gorun")+` "a scratch/bin"`)
	bin := filepath.Join(c.Dir, "a scratch/bin")
	asOn(t, c, 0, `mount -t tmpfs -o mode=777 tmpfs "$1"`, filepath.Dir(bin))
	mount := filepath.Join(c.Dir, "open/mirage")
	asOn(t, c, attacker, `mkdir "$1" && ln -s "$1" "$2"`, mount, bin)
	mountMirage(t, c, filepath.Join(c.Dir, "theirs"), mount, "silent")
	start := func() {
		command.StartPath(t, c, filepath.Join(bin, "gorun"), nil, "--wdir", "/", "-H", "f1", "true").Want(0)
	}
	start()
	asOn(t, c, attacker, `rm "$1" && mkdir "$1"`, bin)
	mountMirage(t, c, filepath.Join(c.Dir, "theirs"), bin, "silent")
	start()
}

// A file of a process that answers no read holds up no start of a job that names it as data. In the
// memory of a rank it hides the stacks of no other rank, and the job ends in order.
func TestMemoryThatDoesNotAnswerHidesNoOtherRank(t *testing.T) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	s := newCommons(t, c.Dir)
	s.as(attacker, `mkdir theirs/data && head -c 8192 /dev/zero >theirs/data/file`)
	mount := filepath.Join(c.Dir, "open/mirage")
	mirage(t, c, filepath.Join(c.Dir, "theirs/data"), mount, "mute")
	r := command.Start(t, c, "--name", "job", "-np", "2", "-H", "f1:2", "--wdir", "/", "-x", "MIRAGE="+mount, "sh",
		"-c", `[ $GORUN_RANK = 1 ] || exec /usr/bin/python3 -uc "$1"; exec sleep 1000`, "sh",
		"import mmap, os, time\nfile = os.open(os.environ['MIRAGE'] + '/file', os.O_RDONLY)\n"+
			"memory = mmap.mmap(file, 4096, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE)\n"+
			"print('ready')\ntime.sleep(1000)", mount+"/file") // gorun looks for a program of MPI in arguments
	must.Until(t, "the rank", func() bool { return strings.Contains(r.Out.String(), "ready") })
	said := command.Start(t, c, "stacks", "--full", "job")
	said.Wait()
	for _, want := range []string{"its memory, or a file of its, does not answer", "sleep 1000"} {
		check.That(t, strings.Contains(said.Out.String(), want), "gorun stacks says\n%s%s", &said.Out, &said.Err)
	}
	must.OK(t, r.Cmd.Process.Signal(syscall.SIGINT))
	check.Equal(t, r.Wait(), 130)
}

// What a command names may be called Python. Then packages of it are looked for beside it, and no
// process of another user's that shows them there is awaited.
func TestSilentPackagesOfAnotherUserAreNotAwaited(t *testing.T) {
	c := lab.MustNamespacesAs(t, victim, lab.Specs(1)...)
	s := newCommons(t, c.Dir)
	s.as(attacker, `mkdir theirs/silent && : >theirs/file`)
	for _, place := range []string{"lib", "lib/python3.9", "lib/python3.9/site-packages", "pyvenv.cfg"} {
		t.Run(filepath.Base(place), func(t *testing.T) {
			prefix := filepath.Join(c.Dir, "open", strings.ReplaceAll(place, "/", "-"))
			at := filepath.Join(prefix, place)
			shown := "theirs/silent"
			asOn(t, c, attacker, `mkdir -p "$1/bin" "$(dirname "$2")" && cp /bin/true "$1/bin/python3"`, prefix, at)
			if place == "pyvenv.cfg" {
				shown = "theirs/file"
				asOn(t, c, attacker, `: >"$1"`, at)
			} else {
				asOn(t, c, attacker, `mkdir "$1"`, at)
			}
			mountMirage(t, c, filepath.Join(c.Dir, shown), at, "silent")
			command.Start(t, c, "-H", "f1", "--wdir", "/", "wc", "-c", filepath.Join(prefix, "bin/python3")).Want(0)
		})
	}
}
