package trust

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"syscall"
)

// ErrIrregular means that a file is a pipe, a terminal or the like.
var ErrIrregular = errors.New("it is no regular file")

// Open opens a file that the user names, as OpenRegular does. It opens devices and descriptors that
// the path itself names as they are: /dev/null, /dev/stdin, and the pipe of a shell's <(command).
func Open(path string) (*os.File, error) {
	if isDevice(path) {
		return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	}
	return OpenRegular(path)
}

// regular returns an error unless info is that of a regular file.
func regular(path string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return &fs.PathError{Op: "open", Path: path, Err: syscall.EISDIR}
	case !info.Mode().IsRegular():
		return &fs.PathError{Op: "open", Path: path, Err: ErrIrregular}
	}
	return nil
}

// isDevice reports whether a path names a device or an open descriptor, which no other user makes.
func isDevice(path string) bool {
	switch filepath.Dir(path) {
	case "/dev", "/dev/fd", "/proc/self/fd":
		return true
	}
	return false
}

// ReadFile reads a file that Open opens, of at most limit bytes.
func ReadFile(path string, limit int) ([]byte, error) {
	file, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return ReadAll(file, limit)
}

// ReadAll reads the rest of a file, of at most limit bytes.
func ReadAll(file *os.File, limit int) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > limit:
		return nil, &fs.PathError{Op: "read", Path: file.Name(), Err: fmt.Errorf("longer than %d bytes", limit)}
	}
	return text, nil
}

// Names yields at most so many names of a folder, in its order, and keeps few of them: whoever may
// write there may make millions. It waits for no pipe, and a folder that cannot be read has none.
func Names(folder string, most int) iter.Seq[string] {
	return func(yield func(string) bool) {
		dir, err := os.OpenFile(folder, syscall.O_DIRECTORY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
		if err != nil {
			return
		}
		defer dir.Close()
		for left := most; left > 0 && err == nil; {
			var names []string
			names, err = dir.Readdirnames(min(left, 1<<10))
			for _, name := range names {
				if !yield(name) {
					return
				}
			}
			left -= len(names)
		}
	}
}
