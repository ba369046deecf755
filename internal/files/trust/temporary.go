package trust

import (
	"errors"
	"os"
)

// Temporary opens a new file of this machine's folder of temporary files, which may be another
// user's. The file has no name any more, so nobody puts another in its place, and it ends when it
// is closed. It is in no file system that another user serves, who would say what it holds. The
// error is a *TemporaryError. The last * of pattern stands for any characters.
func Temporary(pattern string) (*os.File, error) {
	file, err := os.CreateTemp("", pattern)
	if err != nil {
		return nil, &TemporaryError{err}
	}
	if err := errors.Join(FileSystem(file), os.Remove(file.Name())); err != nil {
		return nil, errors.Join(&TemporaryError{err}, file.Close())
	}
	return file, nil
}

// TemporaryError reports that this machine's folder of temporary files cannot hold a file.
type TemporaryError struct{ Err error }

func (e *TemporaryError) Error() string {
	return "write a temporary file on this machine: " + e.Err.Error()
}
func (e *TemporaryError) Unwrap() error { return e.Err }

// Hint names the variable that chooses another folder.
func (e *TemporaryError) Hint() string {
	return "name a folder of yours on this machine that has room: TMPDIR=DIR gorun ..."
}
