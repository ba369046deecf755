package lookup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
)

// Explain returns why a program did not start at p, as a *[wire.Refuse]: by what the system said,
// err, by its working directory and by its file. path is absolute.
func (p Place) Explain(path string, err error) error {
	var no syscall.Errno
	if errors.As(err, &no) {
		if short := exhausted(no); short != "" {
			return wire.Refusef(wire.CodeHostFailed, short, "start %s: %v", path, no)
		}
	}
	if p.Dir != "" {
		if err := p.CheckDir(); err != nil {
			return err
		}
	}
	if err := p.check(path); err != nil {
		return err
	}
	code := wire.CodeNotExecutable
	if errors.Is(err, fs.ErrNotExist) {
		code = wire.CodeNotFound
	}
	if no == 0 {
		return wire.Refusef(code, "", "start %s: %v", path, err)
	}
	if no == syscall.ENOEXEC {
		if what, remedy := read(path).unfit(path); what != "" {
			return wire.Refusef(code, remedy, "%s is %s", path, what)
		}
	}
	return wire.Refusef(code, refused(no, path), "start %s: %v", path, no)
}

// exhausted returns what to do when the system has no room for a process, or "".
func exhausted(no syscall.Errno) string {
	switch no {
	case syscall.EAGAIN:
		return "the user has too many processes, or the cgroup has: ulimit -u, and pids.max of the cgroup"
	case syscall.ENOMEM:
		return "memory or its limit is used up: free -h, ulimit -v, and memory.max of the cgroup"
	case syscall.EMFILE:
		return "too few files may be open: ulimit -n, in limits.conf or the start file of the login shell"
	case syscall.ENFILE:
		return "the host has too many open files: sysctl fs.file-nr fs.file-max"
	}
	return ""
}

// refused returns what to do about a program that the kernel does not take, or "".
func refused(no syscall.Errno, path string) string {
	switch no {
	case syscall.ENOEXEC:
		return "no kernel runs such a file: name the program that reads it before it"
	case syscall.ETXTBSY:
		return "it is being written: start when that has ended (fuser -v " + prose.Quoted(path) + " names the " +
			"writer), and replace programs by mv, not by cp"
	case syscall.E2BIG:
		return "pass less on the command line and in variables: a file, --no-env, --unset-env"
	case syscall.EPERM, syscall.EACCES:
		return "a security module or a mount option forbids it: ask the host's administrator, or put it elsewhere"
	case syscall.EIO, syscall.ESTALE:
		return "its file system does not answer properly: try cat " + prose.Quoted(path) + " >/dev/null"
	}
	return ""
}

// check returns why the file of a program cannot be started at p, as far as it tells without a try.
func (p Place) check(full string) error {
	return p.checkAs("the program "+full, full, mostInterpreters)
}

// mostInterpreters is how many scripts the kernel follows, each of which is the interpreter of the
// one before.
const mostInterpreters = 5

// checkAs is check for a program that is called name in messages.
func (p Place) checkAs(name, full string, most int) error {
	info, err := os.Stat(full)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return p.missing(name, full)
	case err != nil:
		return unusable(name, full, err)
	case info.IsDir():
		return wire.Refusef(wire.CodeNotExecutable, "name a program in it, such as "+filepath.Join(full, "train"),
			"%s is a directory, not a program", full)
	case !info.Mode().IsRegular():
		return wire.Refusef(wire.CodeNotExecutable, "name a program", "%s is no regular file", full)
	}
	i := read(full)
	interpreter, words := i.shebang()
	if !executable(full) {
		return notExecutable(full, interpreter, info)
	}
	if lacks := i.missing(); lacks > 0 {
		return wire.Refusef(wire.CodeNotExecutable, "copy or build it again",
			"%s is cut off: it has %d bytes of %d", full, i.size, i.size+lacks)
	}
	if loader := i.loader; loader != "" {
		if _, err := os.Stat(p.below(loader)); errors.Is(err, fs.ErrNotExist) {
			return wire.Refusef(wire.CodeNotFound, loaderRemedy(loader), "%s needs the loader %s, which does not exist",
				full, loader)
		}
	}
	if interpreter == "" || most == 0 {
		return nil
	}
	return p.checkInterpreter(full, interpreter, words, most)
}

// checkInterpreter returns why the interpreter that a script names cannot be started.
func (p Place) checkInterpreter(script, interpreter, words string, most int) error {
	at := p.below(interpreter)
	name := fmt.Sprintf("the interpreter %q of %s", interpreter, script)
	switch here := exists(at); {
	case !here && strings.HasSuffix(interpreter, "\r"),
		filepath.Base(interpreter) == "env" && strings.HasSuffix(words, "\r"):
		return wire.Refusef(wire.CodeNotFound, "remove them: sed -i 's/\\r$//' "+prose.Quoted(script),
			"the lines of %s end with carriage returns, as on Windows, and so does its interpreter's name", script)
	case !here && !strings.Contains(interpreter, "/"):
		return wire.Refusef(wire.CodeNotFound, "name it by its path, or by env: #!/usr/bin/env "+interpreter,
			"%s is no path", name)
	case !here:
		return wire.Refusef(wire.CodeNotFound, "install it, or name the interpreter on the command line",
			"%s does not exist", name)
	}
	return p.checkAs(name, at, most-1)
}

// loaderRemedy returns what to do where a loader of dynamically linked programs is missing.
func loaderRemedy(loader string) string {
	switch base := filepath.Base(loader); {
	case strings.HasPrefix(base, "ld-musl-"):
		return "it was built for musl, as on Alpine: build it on a host such as this one, or link it statically"
	case base == "ld-linux.so.2":
		return "it is a 32-bit program: install the 32-bit C library there, or build it for 64 bits"
	}
	return "it was built on another system: build it on a host such as this one, or link it statically"
}

// missing says that a program does not exist, or what its link leads to.
func (p Place) missing(name, full string) error {
	if to, err := os.Readlink(full); err == nil {
		return wire.Refusef(wire.CodeNotFound, p.hint("put the file there, or correct the link",
			"copy the file there, too, or let the link lead to one that all hosts share"),
			"%s is a link to %s, which does not exist", name, to)
	}
	hint := p.hint("check its path",
		"check its path, which must exist on every host; --stage . brings the working directory there")
	if like := similar(filepath.Dir(full), filepath.Base(full)); like != "" {
		hint = didYouMean(filepath.Join(filepath.Dir(full), like))
	}
	return wire.Refusef(wire.CodeNotFound, hint, "%s does not exist", name)
}

// unusable says why a path cannot be followed.
func unusable(name, full string, err error) error {
	if folder := barrier(full); errors.Is(err, fs.ErrPermission) && folder != "" {
		return wire.Refusef(wire.CodeNotExecutable, enterRemedy(folder),
			"%s cannot be used: the directory %s may not be entered by the user of the ranks", name, folder)
	}
	return wire.Refusef(wire.CodeNotExecutable, "", "%s cannot be used: %v", name, cause(err))
}

// barrier returns the first directory on the way to a path that this process may not enter, or "".
func barrier(path string) string {
	for at := 1; at < len(path); at++ {
		if path[at] != filepath.Separator {
			continue
		}
		if info, err := os.Stat(path[:at]); err == nil && info.IsDir() && !executable(path[:at]) {
			return path[:at]
		}
	}
	return ""
}

func enterRemedy(folder string) string {
	return "its owner lets others enter it by chmod o+x " + prose.Quoted(folder) +
		", or use a place that the ranks' user may enter"
}

// notExecutable says why a file may not be started.
func notExecutable(full, interpreter string, info fs.FileInfo) error {
	switch {
	case mountedNoExec(full) && interpreter != "":
		return wire.Refusef(wire.CodeNotExecutable, "name its interpreter: "+prose.Quoted(interpreter, full),
			"%s is on a file system that is mounted noexec", full)
	case mountedNoExec(full):
		return wire.Refusef(wire.CodeNotExecutable,
			"put it on another file system (findmnt -T "+prose.Quoted(full)+" shows this one)",
			"%s is on a file system that is mounted noexec", full)
	case info.Mode()&0o111 != 0:
		return wire.Refusef(wire.CodeNotExecutable, "its owner lets others start it: chmod a+rx "+prose.Quoted(full),
			"%s may not be executed by the user of the ranks: its mode is %v", full, info.Mode())
	}
	return wire.Refusef(wire.CodeNotExecutable, "make it executable: chmod +x "+prose.Quoted(full),
		"%s is not executable", full)
}

// CheckDir returns an error if a program cannot start in the working directory of p.
func (p Place) CheckDir() error {
	dir := p.Dir
	hint := p.hint("create it, or name another with --wdir",
		"create it there, or name one that exists on every host with --wdir")
	info, err := os.Stat(dir)
	folder := ""
	if errors.Is(err, fs.ErrPermission) {
		folder = barrier(dir)
	} else if err == nil && info.IsDir() && !executable(dir) {
		folder = dir
	}
	switch {
	case folder != "":
		return wire.Refusef(wire.CodeHostFailed, enterRemedy(folder)+": --wdir DIR",
			"the working directory %s cannot be used: the user of the ranks may not enter %s", dir, folder)
	case errors.Is(err, fs.ErrNotExist):
		return wire.Refusef(wire.CodeHostFailed, hint, "the working directory %s does not exist", dir)
	case err != nil:
		return wire.Refusef(wire.CodeHostFailed, hint, "the working directory %s cannot be used: %v", dir, cause(err))
	case !info.IsDir():
		return wire.Refusef(wire.CodeHostFailed, hint, "the working directory %s is not a directory", dir)
	}
	return nil
}

// executable reports whether this process may start a file, or enter a directory.
func executable(path string) bool { return unix.Access(path, unix.X_OK) == nil }

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// below returns a path as the kernel follows it from p's directory.
func (p Place) below(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(p.Dir, path)
}

// cause strips the operation and path from err, which the sentence around it names.
func cause(err error) error {
	if no, is := errors.AsType[syscall.Errno](err); is {
		return no
	}
	return err
}
