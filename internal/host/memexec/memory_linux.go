package memexec

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Create makes an executable file in memory. name is shown as its name in /proc.
func Create(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // kernels before 6.3 lack MFD_EXEC; there every such file is executable
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Seal makes the content of a file of [Create] final, for all who have it open.
func Seal(file *os.File) error {
	const all = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	_, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, all)
	return err
}
