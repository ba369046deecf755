package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// inspect is os.Lstat that returns an *Error for what another user's file system shows.
func inspect(path string, self int) (fs.FileInfo, error) {
	var in walk
	defer in.end()
	return in.inspect(path, self)
}

// walk inspects the components of a path. Those of one mount are judged once.
type walk struct {
	last *os.File // the component before, which keeps its mount
}

func (w *walk) inspect(path string, self int) (fs.FileInfo, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, asPathError("lstat", path, err)
	}
	file := os.NewFile(uintptr(fd), path)
	beside := none
	if w.last != nil {
		beside = int(w.last.Fd())
	}
	if err := ownFileSystem(fd, path, self, beside); err != nil {
		file.Close()
		return nil, err
	}
	w.end()
	w.last = file
	return file.Stat()
}

func (w *walk) end() {
	if w.last != nil {
		w.last.Close()
	}
}

// FileSystemBelow is FileSystem for a file that was opened below a folder. FileSystem has found the
// folder good, so mounts are looked at for others than its own only.
func FileSystemBelow(folder, file *os.File) error {
	return ownFileSystem(int(file.Fd()), file.Name(), os.Geteuid(), int(folder.Fd()))
}

// FileSystem returns an *Error if an open file belongs to another user's file system in user space
// (FUSE), which shows any owner, inode, time and content.
func FileSystem(file *os.File) error {
	return ownFileSystem(int(file.Fd()), file.Name(), os.Geteuid(), none)
}

// FileSystemOf is FileSystem for a file of a process of this user. mounts is its
// /proc/PID/mountinfo, which has file systems of its own namespace as well.
func FileSystemOf(file *os.File, mounts string) error {
	return ownFileSystem(int(file.Fd()), file.Name(), os.Geteuid(), none, mounts)
}

// ownFileSystem returns an *Error if an open file belongs to a file system in user space (FUSE)
// whose process belongs to another user than self and root. Such a process shows any owner and
// content, and may never answer: the kernel alone is asked, before the file is. The file is open,
// perhaps with O_PATH, so that nothing can be mounted or unmounted in between. A file of the same
// mount as beside, an open file that has been judged, is not judged again. The mounts of this
// process are known, and those in more.
func ownFileSystem(fd int, path string, self, beside int, more ...string) error {
	var found unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, 0, &found)
	if err == nil && found.Dev_major != 0 {
		return nil // on a disk, which root alone lets a process serve
	}
	number, err := mountOf(fd)
	if err == nil && beside != none {
		if other, err := mountOf(beside); err == nil && other == number {
			return nil
		}
	}
	user, known, err := served(number, more)
	if !known { // such as a pipe and the root of a chroot
		var fsys unix.Statfs_t
		if err := unix.Fstatfs(fd, &fsys); err == nil && fsys.Type != unix.FUSE_SUPER_MAGIC {
			return nil
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("ask which file system has %s: %w", path, err)
	case !known:
		return &Error{Path: path, Why: "a file system that is not mounted any more"}
	case user != 0 && user != self:
		return &Error{Path: path, Why: fmt.Sprintf("a file system of user %d", user)}
	}
	return nil
}

// none is no open file.
const none = -1

// served is servedBy with the mounts of this process and those in more.
func served(number string, more []string) (user int, known bool, err error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return 0, false, err
	}
	user, known = servedBy(string(mounts), number)
	for i := 0; i < len(more) && !known; i++ { // no two mounts of the machine have one number
		user, known = servedBy(more[i], number)
	}
	return user, known, nil
}

// mountOf returns the number of an open file's mount. No other mount gets it while the file is
// open.
func mountOf(fd int) (string, error) {
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(info)) { // as in proc_pid_fdinfo(5)
		if number, is := strings.CutPrefix(line, "mnt_id:"); is {
			return strings.TrimSpace(number), nil
		}
	}
	return "", errors.New("/proc/self/fdinfo has no mnt_id")
}

// servedBy returns the user whose process serves a mount; 0 if the kernel does, and -1 if
// mountinfo, a text as in proc_pid_mountinfo(5), names nobody known. A user chooses the name and
// the place of a file system, in which only blanks, tabs and line feeds are escaped.
func servedBy(mountinfo, number string) (user int, known bool) {
	for line := range strings.Lines(mountinfo) {
		mount, source, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		id, _, _ := strings.Cut(mount, " ")
		what := strings.Split(source, " ")
		if id != number || len(what) < 3 {
			continue
		}
		if !strings.HasPrefix(what[0], "fuse") {
			return 0, true
		}
		for option := range strings.SplitSeq(what[2], ",") {
			if text, is := strings.CutPrefix(option, "user_id="); is {
				if user, err := strconv.Atoi(text); err == nil {
					return user, true
				}
				return -1, true
			}
		}
		return 0, true
	}
	return 0, false
}

const accessList = "system.posix_acl_access"

// hasACL reports whether a file has an access control list, by which its mode says less than
// everything.
func hasACL(path string) bool {
	n, err := unix.Lgetxattr(path, accessList, nil)
	return err == nil && n > 0
}

// fileHasACL is hasACL for an open file, to which its path may lead by a link.
func fileHasACL(file *os.File) bool {
	n, err := unix.Fgetxattr(int(file.Fd()), accessList, nil)
	return err == nil && n > 0
}
