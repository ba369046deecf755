package lookup

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// start starts a program as an agent does, and returns why that failed.
func start(path, dir string, argv ...string) error {
	full, err := Place{Dir: dir}.Find(path, "")
	if err != nil {
		return err
	}
	attr := &syscall.ProcAttr{Dir: dir, Env: []string{"PATH=/usr/bin:/bin"}, Files: []uintptr{0, 2, 2}}
	pid, err := syscall.ForkExec(full, append([]string{full}, argv...), attr)
	if err != nil {
		return Place{Dir: dir}.Explain(full, err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || status != 0 {
		return fmt.Errorf("it ended with %v, %w", status, err)
	}
	return nil
}

// dynamic returns the bytes of a dynamically linked program of this host, and its loader.
func dynamic(t *testing.T) (program []byte, loader string) {
	t.Helper()
	for _, name := range []string{"/bin/true", "/usr/bin/true", "/bin/sleep"} {
		if loader = read(name).loader; loader != "" {
			program := must.Get(os.ReadFile(name))(t)
			return program, loader
		}
	}
	t.Skip("no dynamically linked program is installed")
	return nil, ""
}

// changed returns program with old replaced by new, which is as long.
func changed(program []byte, old, new string) string {
	return strings.Replace(string(program), old, new+strings.Repeat("\x00", len(old)-len(new)), 1)
}

// TestFailedStarts starts programs that cannot be started. Where the hint holds a command, that
// removes the cause, whatever the program's name.
func TestFailedStarts(t *testing.T) {
	program, loader := dynamic(t)
	foreign := append([]byte(nil), program...)
	binary.LittleEndian.PutUint16(foreign[18:], uint16(elf.EM_PPC64))
	object := append([]byte(nil), program...)
	binary.LittleEndian.PutUint16(object[16:], uint16(elf.ET_REL))
	const script = "#!/bin/sh\nexit 0\n"
	tests := []struct {
		name, text string
		mode       os.FileMode
		code       int
		what, hint string // parts, with {} for the file
		mend       string // command in the hint after which the file can be started
	}{
		{"no #!", "exit 0\n", 0o755, 126, "{} is a script without #!", "write sh {}", "sh {}"},
		{"Python without #!", "import sys\n", 0o755, 126, "is a script without #!", "", ""},
		{"something before #!", "\n" + script, 0o755, 126, "{} is a script with something before its #!", "remove", ""},
		{"a byte order mark", "\xef\xbb\xbf" + script, 0o755, 126, "{} is a script with a byte order mark before #!",
			"remove the mark", `LC_ALL=C sed -i '1s/^\xef\xbb\xbf//' {}`},
		{"carriage returns", "#!/bin/sh\r\nexit 0\r\n", 0o755, 127, "the lines of {} end with carriage returns",
			"remove them", `sed -i 's/\r$//' {}`},
		{"carriage returns behind env", "#!/usr/bin/env sh\r\nexit 0\r\n", 0o755, 127,
			"the lines of {} end with carriage returns", "remove them", `sed -i 's/\r$//' {}`},
		{"no interpreter", "#!/no/such/python3 -u\n", 0o755, 127,
			`the interpreter "/no/such/python3" of {} does not exist`, "name the interpreter", ""},
		{"an interpreter without path", "#!python3\n", 0o755, 127, `the interpreter "python3" of {} is no path`,
			"#!/usr/bin/env python3", ""},
		{"an interpreter that is a directory", "#!/usr\n", 0o755, 126, "/usr is a directory", "", ""},
		{"not executable", script, 0o644, 126, "{} is not executable", "", "chmod +x {}"},
		{"empty", "", 0o755, 126, "{} is empty", "copy or build", ""},
		{"cut off", string(program[:len(program)/4]), 0o755, 126, "{} is cut off: it has", "copy or build", ""},
		{"its header cut off", string(program[:40]), 0o755, 126, "{} is cut off or damaged", "copy or build", ""},
		{"another architecture", string(foreign), 0o755, 126, "{} is for ppc64, and this host is " +
			uname(machines()[runtime.GOARCH]), "%a in its path", ""},
		{"an object file", string(object), 0o755, 126, "{} is an object file", "link it", ""},
		{"no loader", changed(program, loader, "/lib/ld-none.so.9"), 0o755, 127,
			"{} needs the loader /lib/ld-none.so.9", "link it statically", ""},
		{"musl's loader", changed(program, loader, "/no/ld-musl-x86_64.so.1"), 0o755, 127,
			"/no/ld-musl-x86_64.so.1, which does not exist", "Alpine", ""},
		{"Windows", "MZ\x90\x00", 0o755, 126, "{} is a program for Windows", "for Linux", ""},
		{"macOS", "\xcf\xfa\xed\xfe\x07", 0o755, 126, "{} is a program for macOS", "for Linux", ""},
		{"an archive", "\x1f\x8b\x08\x00", 0o755, 126, "{} is compressed", "unpack it", ""},
		{"a pointer of Git LFS", "version https://git-lfs.github.com/spec/v1\n", 0o755, 126,
			"{} is a pointer of Git LFS", "git lfs pull", ""},
		{"other bytes", "\x00\x01\x02\x03", 0o755, 126, "start {}: exec format error", "name the program that reads it",
			""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "it's;exit 1 $(false)")
			writeProgram(t, path, tc.text, tc.mode)
			fill := strings.NewReplacer("{}", prose.Quoted(path)).Replace
			what := strings.ReplaceAll(tc.what, "{}", path)
			expect(t, start(path, dir), tc.code, what, fill(tc.hint))
			if tc.mend == "" {
				return
			}
			expect(t, start(path, dir), tc.code, what, fill(tc.mend))
			out, err := exec.Command("sh", "-c", fill(tc.mend)).CombinedOutput()
			check.That(t, err == nil, "%s: %v\n%s", fill(tc.mend), err, out)
			if !strings.HasPrefix(tc.mend, "sh ") {
				check.OK(t, start(path, dir), "after", fill(tc.mend))
			}
		})
	}
}

// writeProgram writes a file that can be executed at once: no child of another test holds it open.
func writeProgram(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	must.OK(t, os.WriteFile(path, []byte(text), mode))
}

// expect checks a refusal.
func expect(t *testing.T, err error, code int, what, hint string) {
	t.Helper()
	var no *wire.Refuse
	check.That(t, errors.As(err, &no) && no.Code == code && strings.Contains(no.What, what) &&
		strings.Contains(no.Remedy, hint), "got %+v\nwant %d %q, hint %q", err, code, what, hint)
}

// asNobody runs f in a thread of another user.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		const nobody = 65534
		for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
			if _, _, no := unix.RawSyscall(call, nobody, nobody, nobody); no != 0 {
				t.Errorf("become another user: %v", no)
				return
			}
		}
		f()
	}()
	<-done
}

func TestStartsThatAnotherUserMayNotMake(t *testing.T) {
	top := t.TempDir()
	for at := top; at != "/" && at != os.TempDir(); at = filepath.Dir(at) {
		must.OK(t, os.Chmod(at, 0o755))
	}
	closed := filepath.Join(top, "closed")
	must.OK(t, os.MkdirAll(filepath.Join(closed, "work"), 0o755))
	inside := filepath.Join(closed, "work", "prog")
	outside := filepath.Join(top, "prog")
	mine := filepath.Join(top, "mine")
	const script = "#!/bin/sh\nexit 0\n"
	writeProgram(t, inside, script, 0o755)
	writeProgram(t, outside, script, 0o755)
	writeProgram(t, mine, script, 0o700)
	must.OK(t, os.Chmod(closed, 0o700))
	tests := []struct {
		name, path, dir string
		code            int
		what, mend      string
	}{
		{"a closed working directory", outside, closed, 125, "the working directory " + closed +
			" cannot be used: the user of the ranks may not enter " + closed, "chmod o+x " + closed},
		{"a working directory below a closed one", outside, closed + "/work", 125, "may not enter " + closed,
			"chmod o+x " + closed},
		{"a program below a closed directory", inside, top, 126, "the program " + inside +
			" cannot be used: the directory " + closed + " may not be entered", "chmod o+x " + closed},
		{"a program of another user", mine, top, 126, mine +
			" may not be executed by the user of the ranks: its mode is -rwx------", "chmod a+rx " + mine},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			asNobody(t, func() {
				err := Place{Dir: tc.dir}.CheckDir()
				if err == nil {
					err = start(tc.path, tc.dir)
				}
				expect(t, err, tc.code, tc.what, tc.mend)
				// The agent's check may be older than the change that forbids the start.
				expect(t, Place{Dir: tc.dir}.Explain(tc.path, syscall.EACCES), tc.code, tc.what, tc.mend)
			})
			must.Run(t, exec.Command("sh", "-c", tc.mend))
			asNobody(t, func() {
				check.OK(t, start(tc.path, tc.dir), "after", tc.mend)
			})
			must.OK(t, os.Chmod(closed, 0o700))
		})
	}
}

func TestMountsWithoutPrograms(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", unix.MS_NOEXEC, "size=1m"); err != nil {
		t.Skipf("mount a file system: %v", err)
	}
	defer func() {
		check.OK(t, unix.Unmount(dir, unix.MNT_DETACH))
	}()
	script := filepath.Join(dir, "script")
	writeProgram(t, script, "#!/bin/sh\nexit 0\n", 0o755)
	expect(t, start(script, dir), 126, script+" is on a file system that is mounted noexec", "/bin/sh "+script)
	check.OK(t, start("/bin/sh", dir, script), "by its interpreter")
	program, _ := dynamic(t)
	binary := filepath.Join(dir, "program")
	writeProgram(t, binary, string(program), 0o755)
	expect(t, start(binary, dir), 126, binary+" is on a file system that is mounted noexec", "findmnt -T "+binary)
}

// TestExplainedErrors is about errors that the system returns for a program that is as it should
// be.
func TestExplainedErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "prog")
	writeProgram(t, path, "#!/bin/sh\nexit 0\n", 0o755)
	open := must.Get(os.OpenFile(path, os.O_WRONLY, 0))(t)
	expect(t, start(path, dir), 126, "start "+path+": text file busy", "fuser -v "+path)
	open.Close()
	for no, want := range map[syscall.Errno]struct {
		code int
		hint string
	}{
		syscall.E2BIG: {126, "--unset-env"}, syscall.EPERM: {126, "security module"}, syscall.EIO: {126, "file system"},
		syscall.EAGAIN: {125, "ulimit -u"}, syscall.ENOMEM: {125, "memory.max"}, syscall.EMFILE: {125, "ulimit -n"},
		syscall.ENFILE: {125, "fs.file-max"}, syscall.ENOENT: {127, ""}, syscall.ENXIO: {126, ""},
	} {
		expect(t, Place{Dir: dir}.Explain(path, &os.PathError{Op: "fork/exec", Path: path, Err: no}), want.code,
			"start "+path+": "+no.Error(), want.hint)
	}
	expect(t, Place{}.Explain(path, errors.New("bind it")), 126, "start "+path+": bind it", "")
	must.OK(t, os.Symlink("/no/such", filepath.Join(dir, "link")))
	expect(t, start("./link", dir), 127, dir+"/link is a link to /no/such, which does not exist", "put the file there")
	must.OK(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o755))
	expect(t, start("./fifo", dir), 126, dir+"/fifo is no regular file", "name a program")
}
