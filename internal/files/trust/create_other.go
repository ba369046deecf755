//go:build !linux

package trust

import (
	"io/fs"
	"os"
	"syscall"
)

// Create opens the file at path for writing, and empties it. A new file is accessible to this user
// only. It follows no link at the end of the path.
func Create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
}

// Extend is Create, but for the bytes that a file has: it keeps them and writes behind them.
func Extend(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
}

// Append opens the file at path, which others may share, for reading and appending. A new file is
// accessible to this user only. It follows no link at the end of the path.
func Append(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
}

// CheckOutput returns the *Error that Create would, and changes nothing. Other mistakes are left to
// Create.
func CheckOutput(string) error { return nil }

// MakeDir creates a directory, and those above it that are missing, for this user only.
func MakeDir(path string) error { return os.MkdirAll(path, 0o700) }

// Rename gives a file another name, in place of a file that has it.
func Rename(from, to string) error { return os.Rename(from, to) }

// Remove removes a file.
func Remove(path string) error { return os.Remove(path) }

// Folder opens a directory that others may share, and creates it and those above it that are
// missing, subject to the umask.
func Folder(path string) (*os.Root, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	return os.OpenRoot(path)
}

// OpenRegular opens a regular file for reading. It never waits: whoever may write to the folder may
// have made the file a pipe, or a link to a terminal or to a device.
func OpenRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := regular(path, info); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	info, err = file.Stat()
	if err == nil {
		err = regular(path, info)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// FileSystem returns an *Error if an open file belongs to another user's file system in user space.
func FileSystem(*os.File) error { return nil }

// FileSystemBelow returns nil: see FileSystem.
func FileSystemBelow(_, _ *os.File) error { return nil }

// FileSystemOf is FileSystem for a file of a process of this user.
func FileSystemOf(*os.File, string) error { return nil }

func inspect(path string, _ int) (fs.FileInfo, error) { return os.Lstat(path) }

type walk struct{}

func (walk) inspect(path string, self int) (fs.FileInfo, error) { return inspect(path, self) }

func (walk) end() {}

func hasACL(string) bool { return false }

func fileHasACL(*os.File) bool { return false }

func openFolder(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
}
