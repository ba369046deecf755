package workdir

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// openBelow opens a path below an open folder and follows no link in any part of it: whoever may
// write to the folder can replace parts of it at any time.
func openBelow(folder *os.File, rel string, flags int) (*os.File, error) {
	defer runtime.KeepAlive(folder)
	full := filepath.Join(folder.Name(), rel)
	if !filepath.IsLocal(rel) {
		return nil, &fs.PathError{Op: "open", Path: full, Err: fs.ErrInvalid}
	}
	at := int(folder.Fd())
	above := -1 // descriptor of a parent that this function closes; -1: none
	parts := strings.Split(rel, "/")
	for i, part := range parts {
		step := pathOnly | unix.O_DIRECTORY
		if i == len(parts)-1 {
			step = flags
		}
		fd, err := openAt(at, part, step|unix.O_NOFOLLOW|unix.O_CLOEXEC)
		if above >= 0 {
			unix.Close(above)
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: full, Err: err}
		}
		at = fd
		above = fd
	}
	return os.NewFile(uintptr(at), full), nil
}

// openAt is openat(2), repeated where a signal interrupts it.
func openAt(at int, name string, flags int) (fd int, err error) {
	for {
		if fd, err = unix.Openat(at, name, openFlags(flags), 0); !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// namesIn returns the sorted names of a folder that was opened with pathOnly. It calls meet with
// each as it comes, and gives up at its error: there may be any number.
func namesIn(folder *os.File, meet func(name string) error) (names []string, err error) {
	defer runtime.KeepAlive(folder)
	fd, err := openAt(int(folder.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: folder.Name(), Err: err}
	}
	f := os.NewFile(uintptr(fd), folder.Name())
	defer f.Close()
	for {
		some, err := f.Readdirnames(1 << 10)
		for _, name := range some {
			if err := meet(name); err != nil {
				return nil, err
			}
		}
		names = append(names, some...)
		if err == io.EOF {
			slices.Sort(names)
			return names, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
