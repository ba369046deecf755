package lookup

import "golang.org/x/sys/unix"

// mountedNoExec reports whether no program of a file's file system may be started.
func mountedNoExec(path string) bool {
	var at unix.Statfs_t
	return unix.Statfs(path, &at) == nil && at.Flags&unix.ST_NOEXEC != 0
}
