package trust

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// OpenDir opens a directory that belongs to this user and that nobody else can enter. With repair
// it creates one that is missing, and closes one that others can enter to them. It returns an
// *Error for one of another user.
func OpenDir(path string, repair bool) (*os.File, error) {
	dir, err := openFolder(path)
	if os.IsNotExist(err) && repair {
		if err := MakeDir(path); err != nil {
			return nil, err
		}
		dir, err = openFolder(path)
	}
	if err != nil {
		return nil, err
	}
	if err := closeToOthers(dir, repair); err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

func closeToOthers(dir *os.File, repair bool) error {
	info, err := dir.Stat()
	if err != nil {
		return err
	}
	owner, _ := ids(info)
	switch {
	case int(owner) != os.Geteuid():
		return &Error{Path: dir.Name(), Why: fmt.Sprintf("%v, user %d", info.Mode(), owner)}
	case info.Mode().Perm()&0o077 == 0:
		return nil
	case repair:
		return dir.Chmod(0o700)
	}
	return fmt.Errorf("other users may enter %[1]s: close it with chmod go-rwx %[1]s", dir.Name())
}

// CheckSole returns an error unless an open file is a regular one of this user's without a second
// name.
func CheckSole(file *os.File) error {
	if err := FileSystem(file); err != nil { // which may be mounted on a single file
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if owner, _ := ids(info); !info.Mode().IsRegular() || int(owner) != os.Geteuid() || names(info) != 1 {
		return fmt.Errorf("%s is no file of this user alone", file.Name())
	}
	return nil
}

func names(info fs.FileInfo) uint64 { return uint64(info.Sys().(*syscall.Stat_t).Nlink) }
