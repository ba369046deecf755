package memexec

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Create makes an executable file in memory. name is shown as its name in /proc.
func Create(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // kernels before 6.3 lack MFD_EXEC; there every such file is executable
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
