package control

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// ownSocket makes a stream socket. The mode of its entry in a folder will be that of the
// descriptor, less the umask, so nobody else can connect at any time.
func ownSocket() (fd int, err error) {
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err = unix.Fchmod(fd, 0o600); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// peerUID returns the user at the other end of a unix socket.
func peerUID(fd int) (uid int, err error) {
	who, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(who.Uid), nil
}

// entry returns a short path of an entry of a folder: the path of a socket has at most 107 bytes.
func entry(folder *os.File, name string) string {
	return "/proc/self/fd/" + strconv.Itoa(int(folder.Fd())) + "/" + name
}
