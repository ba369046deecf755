package control

import (
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownSocket creates a stream socket. Its mode cannot be set before it has a name; the mode of its
// folder excludes other users.
func ownSocket() (fd int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); err == nil {
		unix.CloseOnExec(fd)
	}
	return fd, err
}

// peerUID returns the user at the other end of a unix socket.
func peerUID(fd int) (uid int, err error) {
	who, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(who.Uid), nil
}

// entry returns the path of an entry of a folder. macOS has no path through a descriptor, and
// refuses paths of sockets of more than 103 bytes.
func entry(folder *os.File, name string) string { return filepath.Join(folder.Name(), name) }
