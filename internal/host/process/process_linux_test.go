package process

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

const stranger = 65533

// waits is a program in Python, which changes its users and waits. It says when it has done so.
const waits = `import os, sys; %s; print("ready", flush=True); sys.stdin.read()`

// start starts a program that says a line and waits.
func start(t *testing.T, uid int, argv ...string) (pid int) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin", "MARK=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)},
		Pdeathsig:  syscall.SIGKILL,
	}
	cmd.Stderr = os.Stderr
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.OK(t, cmd.Start())
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	must.OK(t, err, line)
	return cmd.Process.Pid
}

func TestOnlyProcessesOfThisUserAreOpened(t *testing.T) {
	lab.NeedRoot(t)
	lab.Need(t, "/usr/bin/python3")
	const python = "/usr/bin/python3"
	raised := filepath.Join(t.TempDir(), "raised")
	text := must.Get(os.ReadFile(python))(t)
	must.OK(t, errors.Join(os.Chmod(filepath.Dir(raised), 0o755), os.Chmod(filepath.Dir(filepath.Dir(raised)), 0o755),
		os.WriteFile(raised, text, 0o755), os.Chmod(raised, 0o755|os.ModeSetuid)))
	for name, c := range map[string]struct {
		uid         int
		program     string
		becomes     string
		foreign     int // user that Open reports; 0: the process is opened
		other       bool
		environment bool
	}{
		"own":           {0, python, "0", 0, false, true},
		"another's":     {stranger, python, "0", stranger, true, true},
		"real":          {0, python, "os.setresuid(65533, 0, 0)", stranger, false, false},
		"effective":     {0, python, "os.setresuid(0, 65533, 0)", stranger, false, false},
		"saved":         {0, python, "os.setresuid(0, 0, 65533)", stranger, false, false},
		"dropped":       {0, python, "os.setgroups([7, 8]); os.setgid(9); os.setuid(65533)", stranger, true, true},
		"raised":        {stranger, raised, "0", stranger, false, false},
		"raised to all": {stranger, raised, "os.setresuid(0, 0, 0)", 0, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			pid := start(t, c.uid, c.program, "-S", "-c", fmt.Sprintf(waits, c.becomes))
			p, err := Open(pid)
			foreign := new(ForeignError)
			must.That(t, errors.As(err, &foreign) == (c.foreign != 0) && foreign.UID == c.foreign, "opened: %v", err)
			if err == nil {
				defer p.Close()
			} else if p, owner, err := OpenAs(pid); (err == nil) != c.other {
				t.Fatalf("opened as another: %v", err)
			} else if err == nil {
				defer p.Close()
				check.That(t, owner.Uid == stranger && (name != "dropped" ||
					!(owner.Gid != 9 || fmt.Sprint(owner.Groups) != "[7 8]")), "its owner is %+v", owner)
			}
			if p == nil {
				if p, _, err = OpenAs(pid); err != nil {
					return
				}
				defer p.Close()
			}
			env, err := p.Environment()
			if mark, _ := env.Lookup("MARK"); (err == nil) != c.environment || (mark == "1") != c.environment {
				t.Errorf("environment %q, %v", env, err)
			}
		})
	}
}

// A process that was this user's when it was opened, and is another's now, says no variables: they
// would be that user's, for a command of this one's.
func TestEnvironmentOfAProcessThatHasChangedItsUser(t *testing.T) {
	lab.NeedRoot(t)
	lab.Need(t, "/usr/bin/python3")
	pid := start(t, 0, "/usr/bin/python3", "-S", "-c",
		fmt.Sprintf(waits, "import signal; signal.signal(10, lambda *_: os.setuid(65533))"))
	p, owner, err := OpenAs(pid)
	must.That(t, err == nil && owner == nil, "%+v, %v", owner, err)
	defer p.Close()
	must.OK(t, p.Signal(syscall.SIGUSR1))
	must.Until(t, "the change of the user", func() bool { return errors.As(p.Own(), new(*ForeignError)) })
	env, err := p.Environment()
	check.That(t, err != nil, "it says %q", env)
}

func TestEnvironmentOfAProcess(t *testing.T) {
	p := must.Get(Open(os.Getpid()))(t)
	defer p.Close()
	env, err := p.Environment()
	path, set := env.Lookup("PATH")
	check.That(t, err == nil && set && path == os.Getenv("PATH"), "PATH=%s, %v, %v", path, set, err)
	if value, set := env.Lookup("GORUN_NONE"); set {
		t.Errorf("a variable that is not set is %q", value)
	}
}

// Another user may have made what has the path of a process's folder here.
func TestFolderIsThatOfTheProcess(t *testing.T) {
	lab.NeedRoot(t)
	top := t.TempDir()
	for _, name := range []string{"a", "gone", "gone (deleted)"} {
		must.OK(t, os.Mkdir(filepath.Join(top, name), 0o755))
	}
	for name, c := range map[string]struct {
		want string
		argv []string
	}{
		"its own": {top + "/a", []string{"sh", "-c", "cd $0/a && echo ready && read x", top}},
		"removed": {"", []string{"sh", "-c", "cd $0/gone && rmdir ../gone && echo ready && read x", top}},
		"a container's": {"", []string{"unshare", "-m", "sh", "-c", "mount -t tmpfs none $0 && mkdir $0/a && " +
			"cd $0/a && echo ready && read x", top}},
	} {
		p := must.Get(Open(start(t, 0, c.argv...)))(t)
		defer p.Close()
		folder, err := p.Folder()
		check.That(t, (err == nil) == (c.want != "") && folder == c.want, "%s: %s, %v", name, folder, err)
	}
}

// A number that passes to another process does not lead there.
func TestEndedProcessStaysEnded(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	must.OK(t, cmd.Start())
	p := must.Get(Open(cmd.Process.Pid))(t)
	defer p.Close()
	must.OK(t, errors.Join(p.Signal(syscall.SIGKILL)))
	_ = cmd.Wait()
	text, err := p.Text("stat")
	check.That(t, err != nil, "it is %q", text)
	check.Error(p.Signal(syscall.SIGKILL)).Any(t, "it gets a signal")
}

// Descriptors are opened as what they are, whatever their names say.
func TestOnlyRealMemoryAndPipesAreOpened(t *testing.T) {
	lab.NeedRoot(t)
	dir := t.TempDir()
	made := func(name string, uid int, err error) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must.OK(t, errors.Join(err, os.Chown(path, uid, uid)))
		return path
	}
	named := made("memfd:x (deleted)", 0,
		os.WriteFile(filepath.Join(dir, "memfd:x (deleted)"), []byte("precious"), 0o600))
	pipe := made("pipe", 0, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	theirs := made("theirs", stranger, unix.Mkfifo(filepath.Join(dir, "theirs"), 0o666))
	hold := func(fd int, err error) string {
		t.Helper()
		must.OK(t, err)
		t.Cleanup(func() { unix.Close(fd) })
		return strconv.Itoa(fd)
	}
	open := func(path string, flags int) string {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
		return hold(fd, err)
	}
	memory := hold(unix.MemfdCreate("x", unix.MFD_CLOEXEC))
	foreign := hold(unix.MemfdCreate("x", unix.MFD_CLOEXEC))
	number, _ := strconv.Atoi(foreign)
	must.OK(t, unix.Fchown(number, stranger, stranger))
	gone := filepath.Join(dir, "gone")
	must.OK(t, os.WriteFile(gone, []byte("precious"), 0o600))
	deleted := open(gone, unix.O_RDWR)
	must.OK(t, os.Remove(gone))
	p := must.Get(Open(os.Getpid()))(t)
	defer p.Close()
	for name, c := range map[string]struct {
		fd           string
		memory, pipe bool
	}{
		"memory":                   {memory, true, false},
		"another user's memory":    {foreign, false, false},
		"a file with such a name":  {open(named, unix.O_RDWR), false, false},
		"a file without a name":    {deleted, onTmpfs(dir), false},
		"a device":                 {open("/dev/zero", unix.O_RDWR), false, false},
		"a pipe":                   {open(pipe, unix.O_RDWR|unix.O_NONBLOCK), false, true},
		"a pipe of another user's": {open(theirs, unix.O_RDWR|unix.O_NONBLOCK), false, false},
	} {
		file, err := p.Memory(c.fd, os.O_RDWR)
		check.That(t, (err == nil) == c.memory, "%s as memory: %v", name, err)
		if err == nil {
			file.Close()
		}
		file, err = p.Pipe(c.fd)
		check.That(t, (err == nil) == c.pipe, "%s as a pipe: %v", name, err)
		if err == nil {
			file.Close()
		}
	}
	for path, want := range map[string]bool{named: true, pipe: false, "/dev/zero": false, dir: false} {
		file, err := p.File(path, func(*os.File) error { return nil })
		check.That(t, (err == nil) == want, "the file %s: %v", path, err)
		if err == nil {
			file.Close()
		}
	}
	text, err := os.ReadFile(named)
	check.That(t, err == nil && strings.Contains(string(text), "precious"), "%q, %v", text, err)
}

// A pipe that a process has filled takes no request, and holds up nobody who writes one.
func TestFullPipeIsNotAwaited(t *testing.T) {
	read, write, err := os.Pipe()
	must.OK(t, err)
	defer read.Close()
	defer write.Close()
	must.OK(t, write.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	check.Error(write.Write(make([]byte, 8<<20))).Is(t, os.ErrDeadlineExceeded)
	p := must.Get(Open(os.Getpid()))(t)
	defer p.Close()
	raw := must.Get(write.SyscallConn())(t)
	number := ""
	must.OK(t, raw.Control(func(fd uintptr) { number = strconv.Itoa(int(fd)) }))
	pipe := must.Get(p.Pipe(number))(t)
	defer pipe.Close()
	wrote := make(chan error, 1)
	go func() {
		_, err := pipe.Write([]byte{1})
		wrote <- err
	}()
	select {
	case err := <-wrote:
		check.Error(err).Is(t, os.ErrDeadlineExceeded)
	case <-time.After(10 * time.Second):
		t.Fatal("a request waits for the process")
	}
}

// onTmpfs reports whether files in a folder are memory, too: one without a name cannot be told from
// a memfd.
func onTmpfs(dir string) bool {
	var fsys unix.Statfs_t
	return unix.Statfs(dir, &fsys) == nil && fsys.Type == unix.TMPFS_MAGIC
}
