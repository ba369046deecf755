package relay

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/net/wire"
)

// kept is a file that stays on the host. It comes in a hidden file beside, which an interrupted
// relay leaves and the next one takes up.
type kept struct {
	root *os.Root
	dir  string // path of root
	part *os.File
	name string // name of the hidden file
	to   wire.Place
	// again is set if the next relay of the same file looks for this one.
	again, done bool
}

// Keep opens the target for a file that stays: it takes the place of a file of that name once it is
// whole. home is where relative folders begin.
func Keep(o wire.Offer, home string) (Target, error) {
	dir := string(o.Dir)
	if err := checkName(o); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(home, dir)
	}
	root, err := trust.Folder(dir)
	if err != nil {
		return nil, Plainly(err)
	}
	return keepIn(root, dir, o)
}

// KeepIn is Keep in an open folder, which the target closes, for an offer that may come from a
// hostile host. dir is its path in errors.
func KeepIn(root *os.Root, dir string, o wire.Offer) (Target, error) {
	err := checkName(o)
	if err == nil {
		err = checkSums(o) // before a file that is there is read in such chunks
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return keepIn(root, dir, o)
}

func checkName(o wire.Offer) error {
	name := string(o.Name)
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return &wire.FormatError{Reason: fmt.Sprintf("%q cannot be a file's name", name)}
	}
	return nil
}

func keepIn(root *os.Root, dir string, o wire.Offer) (Target, error) {
	name := string(o.Name)
	if err := replaceable(root, name); err != nil {
		root.Close()
		return nil, fmt.Errorf("%s %w", filepath.Join(dir, name), err)
	}
	if file := present(root, o); file != nil {
		return &unchanged{kept{
			root: root,
			dir:  dir,
			part: file,
			to:   o.Place,
			name: name,
		}}, nil
	}
	k := &kept{root: root, dir: dir, to: o.Place}
	sum := Sum(o)
	hidden := "." + name + "." + hex.EncodeToString(sum[:8]) + ".gorun"
	if len(hidden) > 255 {
		hidden = "." + hex.EncodeToString(sum[:]) + ".gorun"
	}
	var err error
	if k.part, k.name, err = partial(root, hidden); err != nil {
		root.Close()
		return nil, fmt.Errorf("write in %s: %w", dir, Cause(err))
	}
	k.again = k.name == hidden
	return k, nil
}

// replaceable returns an error if a file cannot take the place of what has its name, before all of
// it has come.
func replaceable(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err != nil {
		return nil
	}
	if info.IsDir() {
		return errors.New("is a folder there")
	}
	folder, err := root.Stat(".")
	if err != nil || folder.Mode()&fs.ModeSticky == 0 {
		return nil
	}
	self := uint32(os.Geteuid())
	if owner := ownerOf(info); self != 0 && owner != self && ownerOf(folder) != self {
		return fmt.Errorf("is in a sticky folder there: only its owner, user %d, can replace it", owner)
	}
	return nil
}

func ownerOf(info fs.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Uid }

// present returns the file that an offer is about if it is there already, as an earlier relay left
// it: this user's, with one name, and the offered mode.
func present(root *os.Root, o wire.Offer) *os.File {
	file, err := root.OpenFile(string(o.Name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	info, err := file.Stat()
	if err == nil && trust.CheckSole(file) == nil && info.Mode().Perm() == fs.FileMode(o.Mode)&fs.ModePerm &&
		info.Size() == o.Size && info.ModTime().UnixNano() == int64(o.Mtime) {
		s := &Source{file: file, size: o.Size, chunk: o.Chunk}
		if sums, err := s.sum(); err == nil && string(sums) == string(o.Sums) {
			return file
		}
	}
	file.Close()
	return nil
}

// unchanged is a file that is there already.
type unchanged struct{ kept }

func (u *unchanged) Path() string { return filepath.Join(u.dir, u.name) }

// partial opens the hidden file, locked. If another launch writes it, or it is somebody else's, it
// makes another one.
func partial(root *os.Root, name string) (*os.File, string, error) {
	for n := 0; ; n++ {
		tried := name
		if n > 0 {
			tried = fmt.Sprintf("%s.%d", name, n)
		}
		// Another user may have made it. Where fs.protected_regular is set, O_CREATE could not tell
		// that from a folder in which this user may not write.
		const how = os.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK
		file, err := root.OpenFile(tried, how, 0)
		missing := errors.Is(err, fs.ErrNotExist)
		if missing {
			file, err = root.OpenFile(tried, how|os.O_CREATE|os.O_EXCL, 0o600)
		}
		if err == nil {
			if err = claim(file); err == nil {
				return file, tried, nil
			}
			file.Close()
		}
		// Not more than would be left by that many launches at a time.
		if n == 100 || missing && errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOSPC) ||
			errors.Is(err, unix.EROFS) {
			return nil, "", err
		}
	}
}

// claim locks a file of this user alone.
func claim(file *os.File) error {
	if err := trust.CheckSole(file); err != nil {
		return err
	}
	return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}

func (k *kept) File() *os.File { return k.part }

func (k *kept) Finish() (string, error) {
	path := filepath.Join(k.dir, string(k.to.Name))
	err := k.part.Chmod(fs.FileMode(k.to.Mode) & fs.ModePerm)
	if err == nil {
		at := time.Unix(0, int64(k.to.Mtime))
		err = os.Chtimes(fmt.Sprintf("/proc/self/fd/%d", k.part.Fd()), at, at)
		if errors.Is(err, fs.ErrNotExist) { // no /proc, as on macOS
			err = k.root.Chtimes(k.name, at, at)
		}
	}
	if err == nil {
		err = k.root.Rename(k.name, string(k.to.Name))
	}
	if k.done = err == nil; !k.done {
		return "", fmt.Errorf("replace %s: %w", path, Cause(err))
	}
	return path, nil
}

func (k *kept) Forget() { k.again = false }

func (k *kept) Close() error {
	var err error
	if !k.again && !k.done && k.name != string(k.to.Name) {
		err = k.root.Remove(k.name)
	}
	return errors.Join(err, k.part.Close(), k.root.Close())
}

// Plainly returns err with its path and without the system call.
func Plainly(err error) error {
	if path, is := errors.AsType[*fs.PathError](err); is {
		return fmt.Errorf("%s: %w", path.Path, path.Err)
	}
	return err
}

// Cause returns err without its path, which is relative to a folder that the caller names.
func Cause(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}
