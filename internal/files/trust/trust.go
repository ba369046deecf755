// Package trust decides what other users of this machine could have made or changed. gorun runs,
// loads and obeys only files that its user and root alone can change, and overwrites no file of
// another user.
package trust

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gorun/gorun/internal/prose"
)

// WriteFile replaces the content of the file at path, which it opens as Create does.
func WriteFile(path string, data []byte) error {
	file, err := Create(path)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}

// maxLinks bounds the links on a path, as Linux does.
const maxLinks = 40

// Error reports that another user could have made or changed a file.
type Error struct {
	Path string // the file, or a directory or link that leads to it
	Why  string
	next string // command that corrects the permissions, or ""
}

func (e *Error) Error() string {
	return fmt.Sprintf("not safe, others can change %s (%s)", e.Path, e.Why)
}

// Hint returns what to do.
func (e *Error) Hint() string {
	if e.next == "" {
		return "use one that belongs to you"
	}
	return "if it is yours alone: " + e.next
}

// Check returns an *Error if another user than this one and root could have made or changed the
// file or directory at path. Each component of the path, and of the links that it leads through,
// belongs to one of the two and is not writable by others. A sticky directory may be, as /tmp is. A
// group may write whose number equals the owner's: it is the owner's private group. A file system
// in user space (FUSE) may show anything, so its process must be theirs too.
//
// The launcher applies the same rule on hosts before gorun is there, in launcher/session/trust.sh.
func Check(path string) error {
	self := os.Geteuid()
	_, err := stat(path, func(at string, info fs.FileInfo) error {
		if info.Mode()&fs.ModeSymlink != 0 {
			return ownedBy(at, info, self)
		}
		return judge(at, info, self, func() bool { return hasACL(at) })
	})
	return err
}

// stat returns what is at a path, as os.Stat does, unless judged returns an error for a component
// of the path or of the links that it leads through. It returns an *Error where that would have to
// be asked of another user's file system (FUSE).
func stat(path string, judged func(at string, info fs.FileInfo) error) (fs.FileInfo, error) {
	if !filepath.IsAbs(path) {
		current, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		path = current + "/" + path // not cleaned: a/.. is not . where a is a link
	}
	// From the top down: nobody else can exchange what has been checked.
	at := "/"
	rest := strings.Split(path, "/")
	links := 0
	self := os.Geteuid()
	var in walk
	defer in.end()
	for {
		info, err := in.inspect(at, self)
		if err == nil {
			err = judged(at, info)
		}
		if err != nil {
			return nil, err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(at)
			if err != nil {
				return nil, err
			}
			if links++; links > maxLinks {
				return nil, &fs.PathError{Op: "follow", Path: path, Err: syscall.ELOOP}
			}
			if rest = slices.Concat(strings.Split(target, "/"), rest); filepath.IsAbs(target) {
				at = "/"
			} else {
				at = filepath.Dir(at)
			}
		}
		if len(rest) == 0 {
			return info, nil
		}
		at = filepath.Join(at, rest[0])
		rest = rest[1:]
	}
}

// Lstat is os.Lstat for a name in a folder that others share. It returns an *Error for what another
// user's file system (FUSE) shows there, and does not ask that, which may never answer.
func Lstat(path string) (fs.FileInfo, error) { return inspect(path, os.Geteuid()) }

// Stat returns what is at a path, as os.Stat does. It returns an *Error where another user's file
// system (FUSE) would have to be asked, which may never answer.
func Stat(path string) (fs.FileInfo, error) { return stat(path, anybodys) }

// Program returns the path of an executable file of that name in the absolute folders of a PATH. It
// passes over those that others could have changed, and folders of which their file systems (FUSE)
// would have to be asked. It returns the first such *Error if no other file is there, or else an
// fs.ErrNotExist.
func Program(name, path string) (string, error) {
	var refused error
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, name)
		info, err := Stat(file)
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			if err = Check(file); err == nil {
				return file, nil
			}
		}
		if _, unsafe := errors.AsType[*Error](err); unsafe {
			refused = cmp.Or(refused, err)
		}
	}
	return "", cmp.Or(refused, error(&fs.PathError{Op: "find", Path: name, Err: fs.ErrNotExist}))
}

// anybodys is for stat where whose the components are does not matter.
func anybodys(string, fs.FileInfo) error { return nil }

// CheckOptional is Check for a file that need not be there. A missing one is an fs.ErrNotExist,
// also in a folder that others can change, such as a home directory that a group shares.
func CheckOptional(path string) error {
	err := Check(path)
	if _, unsafe := errors.AsType[*Error](err); unsafe {
		if _, missing := Stat(path); errors.Is(missing, fs.ErrNotExist) {
			return missing
		}
	}
	return err
}

// File returns an *Error if another user could have changed an open file, by its owner, its mode
// and who serves its file system alone. As in OpenSSH, the directories that lead to it do not
// count. path is the file's in the error.
func File(file *os.File, path string) error {
	err := FileSystem(file)
	if foreign, is := errors.AsType[*Error](err); is {
		foreign.Path = path // the file may have been opened by another one
	}
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return judge(path, info, os.Geteuid(), func() bool { return fileHasACL(file) })
}

// judge checks one component of a path that is no link. listed reports whether it has an access
// control list.
func judge(path string, info fs.FileInfo, self int, listed func() bool) error {
	if err := ownedBy(path, info, self); err != nil {
		return err
	}
	owner, group := ids(info)
	if safe(info.Mode(), owner, group) && (info.Mode()&0o020 == 0 || !listed()) {
		return nil
	}
	return &Error{path, info.Mode().String(), "chmod go-w " + prose.Quoted(path)}
}

// safe reports whether only the owner can change a file or directory, as far as its mode says.
func safe(mode fs.FileMode, owner, group uint32) bool {
	if mode.IsDir() && mode&fs.ModeSticky != 0 {
		return true
	}
	return mode&0o002 == 0 && (mode&0o020 == 0 || owner == group)
}

func ownedBy(path string, info fs.FileInfo, self int) error {
	if owner, _ := ids(info); owner != 0 && int(owner) != self {
		return &Error{Path: path, Why: fmt.Sprintf("%v, user %d", info.Mode(), owner)}
	}
	return nil
}

func ids(info fs.FileInfo) (owner, group uint32) {
	stat := info.Sys().(*syscall.Stat_t)
	return stat.Uid, stat.Gid
}
