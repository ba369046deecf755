package inventory

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// receive reads a compressed program into a file in memory; nil if none was sent.
func receive(in io.Reader) (*os.File, error) {
	from := bufio.NewReader(in)
	if _, err := from.Peek(1); errors.Is(err, io.EOF) {
		return nil, nil
	}
	unzip, err := gzip.NewReader(from)
	if err != nil {
		return nil, fmt.Errorf("receive gorun-gpu: %w", err)
	}
	fd, err := unix.MemfdCreate("gorun-gpu", unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // kernels before 6.3, where every such file may be run
		fd, err = unix.MemfdCreate("gorun-gpu", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, fmt.Errorf("make a file in memory for gorun-gpu: %w", err)
	}
	file := os.NewFile(uintptr(fd), "gorun-gpu")
	n, err := io.Copy(file, io.LimitReader(unzip, maxProgram))
	if err == nil && n == maxProgram {
		err = errors.New("it is too large")
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("receive gorun-gpu: %w", err)
	}
	return file, nil
}
