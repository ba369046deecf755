package trust

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// errIrregular is why a pipe, a device or a directory is not read.
var errIrregular = errors.New("it is no regular file")

// OpenRegular opens a regular file for reading. It never waits: whoever may write to the folder may
// have made the file a pipe, or a link to a device without end.
func OpenRegular(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil, &fs.PathError{Op: "open", Path: path, Err: errIrregular}
	}
	return file, nil
}
