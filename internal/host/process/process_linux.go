package process

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxText bounds a file of /proc that is read.
const maxText = 16 << 20

// Process is an open process. Its methods fail when the process has ended. They may be called
// concurrently, but for Close.
type Process struct {
	PID   int
	dir   *os.File            // /proc/PID
	began *syscall.Credential // owner when it was opened
}

// ForeignError reports a process of another user, or one that runs as several.
type ForeignError struct {
	PID, UID int
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("process %d runs as user %d, and is left alone", e.PID, e.UID)
}

// Open opens a process. It returns a [ForeignError] unless the process's real, effective, saved and
// file system user are all this process's.
func Open(pid int) (*Process, error) {
	p, _, err := OpenAs(pid)
	if err != nil {
		return nil, err
	}
	if err := p.Own(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Own returns an error if the process has ended, and a [ForeignError] if it has become another
// user's since it was opened.
func (p *Process) Own() error {
	owner, err := p.owner()
	if err == nil && owner != nil {
		err = &ForeignError{p.PID, int(owner.Uid)}
	}
	return err
}

// OpenAs opens a process of any one user. A program that obeys what the process says of itself must
// start with the user and groups of owner, which is nil for a process of this user.
func OpenAs(pid int) (p *Process, owner *syscall.Credential, err error) {
	dir, err := os.Open("/proc/" + strconv.Itoa(pid))
	if err != nil {
		return nil, nil, err
	}
	p = &Process{PID: pid, dir: dir}
	if p.began, err = p.owner(); err != nil {
		p.Close()
		return nil, nil, err
	}
	return p, p.began, nil
}

// Close releases the process.
func (p *Process) Close() { p.dir.Close() }

// owner returns the user and groups of the process, or nil if it runs as this user.
func (p *Process) owner() (*syscall.Credential, error) {
	text, err := p.Text("status")
	if err != nil {
		return nil, err
	}
	uids := numbers(text, "Uid:")
	gids := numbers(text, "Gid:")
	if len(uids) != 4 || len(gids) != 4 {
		return nil, fmt.Errorf("process %d has no users in /proc", p.PID)
	}
	self := uint32(os.Geteuid())
	for _, uid := range uids {
		if uid != uids[0] {
			other := slices.IndexFunc(uids, func(u uint32) bool { return u != self })
			return nil, &ForeignError{p.PID, int(uids[other])}
		}
	}
	if uids[0] == self {
		return nil, nil
	}
	return &syscall.Credential{Uid: uids[0], Gid: gids[0], Groups: numbers(text, "Groups:")}, nil
}

// numbers returns the numbers in a line of /proc/PID/status.
func numbers(status, name string) (all []uint32) {
	for _, field := range Field(status, name) {
		n, err := strconv.ParseUint(field, 10, 32)
		if err != nil {
			return nil
		}
		all = append(all, uint32(n))
	}
	return all
}

// Text returns the content of a file below /proc/PID.
func (p *Process) Text(name string) (string, error) {
	file, err := p.open(name, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxText))
	return string(text), err
}

// Names lists a folder below /proc/PID.
func (p *Process) Names(name string) []string {
	dir, err := p.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	slices.SortFunc(names, func(a, b string) int { // numbers by size
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	return names
}

// Link returns what a link below /proc/PID says, or "". It is a text: what it names may be another
// file.
func (p *Process) Link(name string) string {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(p.dir.Fd()), name, target)
	if err != nil {
		return ""
	}
	return string(target[:n])
}

// Folder returns the path of the process's working directory. It fails if that path leads this
// process to another directory, which anybody may have made: the process may be in a container, or
// its directory removed.
func (p *Process) Folder() (string, error) {
	var theirs, ours unix.Stat_t
	if err := unix.Fstatat(int(p.dir.Fd()), "cwd", &theirs, 0); err != nil {
		return "", &fs.PathError{Op: "stat", Path: p.dir.Name() + "/cwd", Err: err}
	}
	path := p.Link("cwd")
	if path != "/" && (unix.Stat(path, &ours) != nil || ours.Dev != theirs.Dev || ours.Ino != theirs.Ino) {
		return "", fmt.Errorf("%s is not that directory here: it was removed, or is in a container", path)
	}
	return path, nil
}

func (p *Process) open(name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(p.dir.Fd()), name, flags|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: p.dir.Name() + "/" + name, Err: err}
	}
	return os.NewFile(uintptr(fd), p.dir.Name()+"/"+name), nil
}

// Memory opens a memfd of this user's that the process has as a descriptor.
func (p *Process) Memory(fd string, flags int) (*os.File, error) {
	return p.checked("fd/"+fd, flags, func(at int, stat *unix.Stat_t) bool {
		var fsys unix.Statfs_t
		return stat.Mode&unix.S_IFMT == unix.S_IFREG && stat.Nlink == 0 && unix.Fstatfs(at, &fsys) == nil &&
			fsys.Type == unix.TMPFS_MAGIC
	}, func(file *os.File) error {
		_, err := unix.FcntlInt(file.Fd(), unix.F_GET_SEALS, 0)
		return err
	})
}

// pipeTime bounds the writing to a pipe of another process, which may be full.
const pipeTime = 100 * time.Millisecond

// Pipe opens, for writing at once, a pipe of this user's that the process has as a descriptor. A
// full one takes nothing, which is an error soon.
func (p *Process) Pipe(fd string) (*os.File, error) {
	pipe, err := p.checked("fd/"+fd, unix.O_WRONLY, func(_ int, stat *unix.Stat_t) bool {
		return stat.Mode&unix.S_IFMT == unix.S_IFIFO
	}, nil)
	if err != nil {
		return nil, err
	}
	if err := pipe.SetWriteDeadline(time.Now().Add(pipeTime)); err != nil {
		pipe.Close()
		return nil, err
	}
	return pipe, nil
}

// checked opens the target of a link below /proc/PID, which must be a file of this user's that
// judge accepts. Nobody can put another file there between the judgement and the opening.
func (p *Process) checked(name string, flags int, judge func(fd int, stat *unix.Stat_t) bool,
	sure func(*os.File) error) (*os.File, error) {
	found, err := p.open(name, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	return reopen(found, flags, func(fd int, stat *unix.Stat_t) bool {
		return stat.Uid == uint32(os.Geteuid()) && judge(fd, stat)
	}, sure)
}

// reopen opens the file of an O_PATH descriptor if judge agrees.
func reopen(found *os.File, flags int, judge func(fd int, stat *unix.Stat_t) bool,
	sure func(*os.File) error) (*os.File, error) {
	var stat unix.Stat_t
	at := int(found.Fd())
	if err := unix.Fstat(at, &stat); err != nil {
		return nil, err
	}
	if !judge(at, &stat) {
		return nil, fmt.Errorf("%s is another user's, or not of the kind that its name says", found.Name())
	}
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(at), flags|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: found.Name(), Err: err}
	}
	file := os.NewFile(uintptr(fd), found.Name())
	if sure != nil {
		if err := sure(file); err != nil {
			file.Close()
			return nil, &fs.PathError{Op: "open", Path: found.Name(), Err: err}
		}
	}
	return file, nil
}

// Space opens the process's memory for reading, with its addresses as offsets. What is opened stays
// that memory, whatever program the process begins later.
func (p *Process) Space() (*os.File, error) {
	space, err := p.open("mem", unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	if err := p.Own(); err != nil {
		space.Close()
		return nil, err
	}
	return space, nil
}

// File opens a regular file by the path that it has for the process, if judge returns no error. It
// gets the file before it is opened for reading, as what is opened then. The caller checks the
// owner.
func (p *Process) File(path string, judge func(found *os.File) error) (*os.File, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.Link("cwd"), path)
	}
	root, err := p.open("root", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	fd, err := unix.Openat2(int(root.Fd()), path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if unknownCall(err) { // without openat2, absolute links lead out of the process's root
		fd, err = unix.Openat(int(root.Fd()), "."+path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	found := os.NewFile(uintptr(fd), path)
	defer found.Close()
	if err := judge(found); err != nil {
		return nil, err
	}
	return reopen(found, unix.O_RDONLY, func(_ int, stat *unix.Stat_t) bool {
		return stat.Mode&unix.S_IFMT == unix.S_IFREG
	}, nil)
}

// Signal sends a signal to the process, and to no later one with its number.
func (p *Process) Signal(signal syscall.Signal) error {
	err := unix.PidfdSendSignal(int(p.dir.Fd()), signal, nil, 0)
	if !unknownCall(err) && !errors.Is(err, unix.EBADF) {
		return err
	}
	// On an old kernel or in a sandbox a short race remains.
	if _, err := p.Text("stat"); err != nil {
		return err
	}
	return unix.Kill(p.PID, signal)
}

// unknownCall reports whether err means that the kernel or a sandbox does not have a system call.
func unknownCall(err error) bool { return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) }

// Environment is the variables of a process, NAME=value.
type Environment []string

// Lookup returns the value of a variable.
func (e Environment) Lookup(name string) (value string, set bool) {
	for _, kv := range e {
		if value, set = strings.CutPrefix(kv, name+"="); set {
			return value, true
		}
	}
	return "", false
}

// Environment returns the environment with which the process's program began. It fails if the
// process has another owner than when it was opened, or if that program has gained privileges by
// its start, as from a setuid bit: the variables are then those of the user without them, whatever
// the process's user is now.
func (p *Process) Environment() (Environment, error) {
	before, err := p.start()
	if err != nil {
		return nil, err
	}
	text, err := p.Text("environ")
	if err != nil {
		return nil, err
	}
	if after, err := p.start(); err != nil || !bytes.Equal(before, after) {
		return nil, fmt.Errorf("process %d has just begun another program", p.PID)
	}
	return strings.Split(strings.TrimSuffix(text, "\x00"), "\x00"), nil
}

// start identifies the start of the process's program, by the owner and what the kernel has told
// the program, in which some addresses are random. It fails if the program has gained privileges.
func (p *Process) start() ([]byte, error) {
	owner, err := p.owner()
	if err != nil {
		return nil, err
	}
	if fmt.Sprint(owner) != fmt.Sprint(p.began) {
		return nil, fmt.Errorf("process %d has just become another user's", p.PID)
	}
	auxv, err := p.Text("auxv")
	if err != nil {
		return nil, err
	}
	if gained, known := secure([]byte(auxv)); gained || !known {
		return nil, fmt.Errorf("process %d may have gained privileges by its start: its environment is another user's",
			p.PID)
	}
	return fmt.Appendf([]byte(auxv), "%+v", owner), nil
}

// secure reads AT_SECURE from a process's auxiliary vector, whose words must have the size of
// gorun's own. gained reports whether the process gained privileges when its program started.
func secure(auxv []byte) (gained, known bool) {
	const atSecure = 23 // AT_SECURE of linux/auxvec.h
	for pair := range slices.Chunk(auxv, 2*wordSize) {
		if len(pair) == 2*wordSize && word(pair) == atSecure {
			return word(pair[wordSize:]) != 0, true
		}
	}
	return false, false
}

const wordSize = strconv.IntSize / 8

func word(data []byte) uint64 {
	if wordSize == 8 {
		return binary.NativeEndian.Uint64(data)
	}
	return uint64(binary.NativeEndian.Uint32(data))
}
