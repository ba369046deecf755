// Package space explains errors of file systems that are full.
package space

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/prose"
)

// Error reports that a file system is full, or that the user's quota there is used up.
type Error struct {
	Err   error
	Mount string // where the file system begins
	Free  int64  // bytes that the user may still write
	Need  int64  // bytes of what was to be written; 0: unknown
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%v: the file system at %s has %s free", e.Err, e.Mount, prose.Size(e.Free))
	if e.Need > 0 {
		text += ", and " + prose.Size(e.Need) + " are needed"
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Short reports whether err is that a file system is full, or a quota used up.
func Short(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Explain returns err, as an *Error if it is that the file system of dir is full. need is how many
// bytes were to be written, or 0.
func Explain(err error, dir string, need int64) error {
	var at unix.Statfs_t
	if !Short(err) || errors.As(err, new(*Error)) || unix.Statfs(dir, &at) != nil {
		return err
	}
	// The file system matters, not a temporary file's name.
	if path, is := errors.AsType[*fs.PathError](err); is {
		err = path.Err
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return &Error{
		Err:   err,
		Mount: mountOf(dir),
		Free:  int64(uint64(at.Bavail) * uint64(at.Bsize)),
		Need:  need,
	}
}

// Check returns an *Error if fewer than need bytes are free in the file system of dir.
func Check(dir string, need int64) error {
	var at unix.Statfs_t
	if err := unix.Statfs(dir, &at); err != nil || need <= int64(uint64(at.Bavail)*uint64(at.Bsize)) {
		return nil // a file system that tells nothing refuses when it is full
	}
	return Explain(syscall.ENOSPC, dir, need)
}

// mountOf returns the uppermost directory of dir's file system on the way to it.
func mountOf(dir string) string {
	device, known := deviceOf(dir)
	for known && dir != filepath.Dir(dir) {
		if above, known := deviceOf(filepath.Dir(dir)); !known || above != device {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

func deviceOf(dir string) (device uint64, known bool) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, false
	}
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, false
	}
	return uint64(stat.Dev), true
}
