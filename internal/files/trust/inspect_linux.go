package trust

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// inspect is os.Lstat that returns an *Error for what another user's file system shows.
func inspect(path string, self int) (fs.FileInfo, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, asPathError("lstat", path, err)
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	if err := ownFileSystem(fd, path, self); err != nil {
		return nil, err
	}
	return file.Stat()
}

// FileSystem returns an *Error if an open file belongs to another user's file system in user space
// (FUSE), which shows any owner, inode, time and content.
func FileSystem(file *os.File) error {
	return ownFileSystem(int(file.Fd()), file.Name(), os.Geteuid())
}

// FileSystemOf is FileSystem for a file of a process of this user. mounts is its
// /proc/PID/mountinfo, which has file systems of its own namespace as well.
func FileSystemOf(file *os.File, mounts string) error {
	return ownFileSystem(int(file.Fd()), file.Name(), os.Geteuid(), mounts)
}

// ownFileSystem returns an *Error if an open file belongs to a file system in user space (FUSE)
// whose process belongs to another user than self and root. Such a process shows any owner and
// content. The file is open, so that nothing can be mounted or unmounted in between.
// The mounts of this process are known, and those in more.
func ownFileSystem(fd int, path string, self int, more ...string) error {
	var fsys unix.Statfs_t
	if err := unix.Fstatfs(fd, &fsys); err == nil && fsys.Type != unix.FUSE_SUPER_MAGIC {
		return nil
	}
	about, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return fmt.Errorf("ask which file system has %s: %w", path, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("list the mounted file systems: %w", err)
	}
	number := mountOf(string(about))
	user, known := servedBy(string(mounts), number)
	for i := 0; i < len(more) && !known; i++ { // no two mounts of the machine have one number
		user, known = servedBy(more[i], number)
	}
	switch {
	case !known:
		return &Error{Path: path, Why: "a file system that is not mounted any more"}
	case user != 0 && user != self:
		return &Error{Path: path, Why: fmt.Sprintf("a file system of user %d", user)}
	}
	return nil
}

// mountOf returns the number of the mount in a text of /proc/PID/fdinfo (proc_pid_fdinfo(5)), or
// "".
func mountOf(fdinfo string) string {
	for line := range strings.Lines(fdinfo) {
		if number, is := strings.CutPrefix(line, "mnt_id:"); is {
			return strings.TrimSpace(number)
		}
	}
	return ""
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
