package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/prose"
)

// Create opens the file at path for writing, and empties it. A new file is accessible to this user
// only. Create follows only links of this user and root. It refuses, with an *Error, an existing
// file of another user, and one with a second name, which another user may have given it.
func Create(path string) (*os.File, error) { return openOwn(path, unix.O_TRUNC) }

// Extend is Create, but for the bytes that a file has: it keeps them and writes behind them.
func Extend(path string) (*os.File, error) { return openOwn(path, unix.O_APPEND) }

func openOwn(path string, flags int) (*os.File, error) {
	dir, name, err := locate(path)
	if err != nil {
		return nil, asPathError("open", path, err)
	}
	defer unix.Close(dir)
	var file *os.File
	switch inProc, perr := isProc(dir); {
	case perr != nil:
		err = perr
	case inProc: // the kernel's link to an open descriptor, behind /dev/stdout
		file, err = openAt(dir, name, unix.O_WRONLY|flags, path)
	default:
		file, err = createAt(dir, name, flags, path)
	}
	return file, asPathError("open", path, err)
}

// Append opens the file at path, which others may share, for reading and appending. A new file is
// accessible to this user only. Append follows only links of this user and root.
func Append(path string) (*os.File, error) {
	dir, name, err := locate(path)
	if err != nil {
		return nil, asPathError("open", path, err)
	}
	defer unix.Close(dir)
	file, err := openAt(dir, name, unix.O_RDWR|unix.O_APPEND|unix.O_CREAT, path)
	return file, asPathError("open", path, err)
}

// CheckOutput returns the *Error that Create would, and changes nothing. Other mistakes are left to
// Create.
func CheckOutput(path string) error {
	dir, name, err := locate(path)
	if err == nil {
		defer unix.Close(dir)
		if inProc, _ := isProc(dir); !inProc {
			err = overwritableAt(dir, name, path)
		}
	}
	if foreign, is := errors.AsType[*Error](err); is {
		return foreign
	}
	return nil
}

// MakeDir creates a directory, and those above it that are missing, for this user only. It follows
// only links of this user and root, and refuses, with an *Error, an existing directory of another
// user.
func MakeDir(path string) error {
	dir, name, err := locate(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := MakeDir(filepath.Dir(path)); err != nil {
			return err
		}
		dir, name, err = locate(path)
	}
	if errors.Is(err, unix.EISDIR) { // the top, or the current directory
		return nil
	}
	if err != nil {
		return asPathError("mkdir", path, err)
	}
	defer unix.Close(dir)
	if err := unix.Mkdirat(dir, name, 0o700); err != unix.EEXIST {
		return asPathError("mkdir", path, err)
	}
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return asPathError("mkdir", path, err)
	}
	made := os.NewFile(uintptr(fd), path)
	defer made.Close()
	if err := ownFileSystem(fd, path, os.Geteuid(), none); err != nil {
		return err
	}
	info, err := made.Stat()
	if err != nil {
		return err
	}
	return ownedBy(path, info, os.Geteuid())
}

// Rename gives a file another name, in place of a file that has it. It follows only links of this
// user and root to the two folders, and none that has one of the names.
func Rename(from, to string) error {
	source, err := parent(from)
	if err != nil {
		return asPathError("rename", from, err)
	}
	defer unix.Close(source)
	target, err := parent(to)
	if err != nil {
		return asPathError("rename", to, err)
	}
	defer unix.Close(target)
	return asPathError("rename", from, unix.Renameat(source, filepath.Base(from), target, filepath.Base(to)))
}

// Remove removes a file. It follows only links of this user and root to the folder, and none that
// has the name.
func Remove(path string) error {
	dir, err := parent(path)
	if err != nil {
		return asPathError("remove", path, err)
	}
	defer unix.Close(dir)
	return asPathError("remove", path, unix.Unlinkat(dir, filepath.Base(path), 0))
}

// parent opens the folder that has the name at the end of a path.
func parent(path string) (dir int, err error) {
	dir, _, err = locate(filepath.Dir(path) + "/.")
	return dir, err
}

// Folder opens a directory that others may share, and creates it and those above it that are
// missing, subject to the umask. It follows only links of this user and root.
func Folder(path string) (*os.Root, error) {
	dir, _, err := locate(path + "/.")
	if errors.Is(err, fs.ErrNotExist) {
		dir, err = makeFolder(path)
	}
	if err != nil {
		return nil, asPathError("open", path, err)
	}
	defer unix.Close(dir)
	return os.OpenRoot("/proc/self/fd/" + strconv.Itoa(dir))
}

func makeFolder(path string) (dir int, err error) {
	parent, err := Folder(filepath.Dir(path))
	if err != nil {
		return -1, err
	}
	defer parent.Close()
	if err := parent.Mkdir(filepath.Base(path), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return -1, err.(*fs.PathError).Err
	}
	dir, _, err = locate(path + "/.")
	return dir, err
}

// OpenRegular opens a regular file for reading. It never waits, and opens nothing else: whoever may
// write to the folder may have made the file a pipe, or a link to a terminal or to a device.
func OpenRegular(path string) (*os.File, error) {
	found, err := openFile(unix.AT_FDCWD, path, unix.O_PATH, path)
	if err != nil {
		return nil, asPathError("open", path, err)
	}
	defer found.Close()
	info, err := found.Stat()
	if err != nil {
		return nil, err
	}
	if err := regular(path, info); err != nil {
		return nil, err
	}
	file, err := reopen(found, unix.O_RDONLY|unix.O_NONBLOCK) // a lease of its owner makes others wait
	return file, asPathError("open", path, err)
}

// locate resolves the links of a path and returns the directory that the file is in, or is to be
// in, and its name there.
func locate(path string) (dir int, name string, err error) {
	self := os.Geteuid()
	top := "."
	if filepath.IsAbs(path) {
		top = "/"
	}
	if dir, err = openDir(top); err != nil {
		return -1, "", err
	}
	defer func() {
		if err != nil {
			unix.Close(dir)
		}
	}()
	if err = ownFileSystem(dir, path, self, none); err != nil {
		return dir, "", err
	}
	rest := words(path)
	for links := 0; len(rest) > 0; {
		name = rest[0]
		rest = rest[1:]
		if inProc, err := isProc(dir); err != nil || inProc && len(rest) == 0 {
			return dir, name, err
		}
		fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT && len(rest) == 0 {
			return dir, name, nil
		}
		if err != nil {
			return dir, "", err
		}
		step := os.NewFile(uintptr(fd), name)
		var info fs.FileInfo
		if err = ownFileSystem(fd, path, self, dir); err == nil {
			info, err = step.Stat()
		}
		switch {
		case err != nil:
		case info.Mode()&fs.ModeSymlink != 0:
			if links++; links > maxLinks {
				err = unix.ELOOP
			} else if err = ownedBy(path, info, self); err == nil {
				rest, err = follow(fd, &dir, rest)
			}
		case len(rest) == 0:
			step.Close()
			return dir, name, nil
		case !info.IsDir():
			err = unix.ENOTDIR
		default:
			err = unix.Dup3(fd, dir, unix.O_CLOEXEC)
		}
		step.Close()
		if err != nil {
			return dir, "", err
		}
	}
	return dir, "", unix.EISDIR
}

// follow returns the rest of the path behind a link, which begins at dir. It changes dir to / for
// an absolute link.
func follow(link int, dir *int, rest []string) ([]string, error) {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(link, "", target)
	if err != nil {
		return nil, err
	}
	if n > 0 && target[0] == '/' {
		top, err := openDir("/")
		if err != nil {
			return nil, err
		}
		unix.Close(*dir)
		*dir = top
	}
	return slices.Concat(words(string(target[:n])), rest), nil
}

func openDir(path string) (int, error) {
	return unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// openFolder opens a folder for reading, if no other user's process shows it: such a process may
// never answer.
func openFolder(path string) (*os.File, error) {
	found, err := openFile(unix.AT_FDCWD, path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, path)
	if err != nil {
		return nil, asPathError("open", path, err)
	}
	defer found.Close()
	if err := FileSystem(found); err != nil {
		return nil, err
	}
	dir, err := openFile(int(found.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY, path)
	return dir, asPathError("open", path, err)
}

func words(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// createAt opens or creates the file, which is no link.
func createAt(dir int, name string, flags int, path string) (*os.File, error) {
	file, err := openAt(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|flags, path)
	if err == nil || !errors.Is(err, fs.ErrExist) {
		return file, err
	}
	// What is there is judged before it is opened, which waits for a reader where another user has
	// made a pipe, and is opened as what was judged, not by its name.
	found, err := openAt(dir, name, unix.O_PATH, path)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	if err := overwritable(found, path); err != nil {
		return nil, err
	}
	return reopen(found, unix.O_WRONLY|flags)
}

// reopen opens the file of an O_PATH descriptor.
func reopen(found *os.File, flags int) (*os.File, error) {
	link := "/proc/self/fd/" + strconv.Itoa(int(found.Fd()))
	return openFile(unix.AT_FDCWD, link, flags, found.Name())
}

// overwritableAt is overwritable for a file that is not open.
func overwritableAt(dir int, name, path string) error {
	file, err := openAt(dir, name, unix.O_PATH, path)
	if err != nil {
		return err
	}
	defer file.Close()
	return overwritable(file, path)
}

// overwritable returns an error unless an existing file is this user's and has one name, or is a
// device.
func overwritable(file *os.File, path string) error {
	if err := ownFileSystem(int(file.Fd()), path, os.Geteuid(), none); err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&fs.ModeDevice != 0 {
		return err
	}
	if err := ownedBy(path, info, os.Geteuid()); err != nil {
		return err
	}
	if n := names(info); info.Mode().IsRegular() && n > 1 {
		return &Error{path, fmt.Sprintf("%v, with %d names", info.Mode(), n), "rm " + prose.Quoted(path)}
	}
	return nil
}

func openAt(dir int, name string, flags int, path string) (*os.File, error) {
	if inProc, _ := isProc(dir); !inProc {
		flags |= unix.O_NOFOLLOW
	}
	return openFile(dir, name, flags, path)
}

func openFile(dir int, name string, flags int, path string) (*os.File, error) {
	fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0o600)
	for err == unix.EINTR {
		fd, err = unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0o600)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// isProc reports whether a directory is one of the kernel's about processes, whose links lead to
// open files and not to paths.
func isProc(dir int) (bool, error) {
	var fsys unix.Statfs_t
	err := unix.Fstatfs(dir, &fsys)
	return fsys.Type == unix.PROC_SUPER_MAGIC, err
}

func asPathError(op, path string, err error) error {
	if _, plain := err.(unix.Errno); plain {
		return &fs.PathError{Op: op, Path: path, Err: err}
	}
	return err
}
