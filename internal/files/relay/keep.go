package relay

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/net/wire"
)

// kept is a file that stays on the host. It comes in a hidden file beside, which an interrupted
// relay leaves and the next one takes up.
type kept struct {
	root *os.Root
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
	name := string(o.Name)
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return nil, &wire.FormatError{Reason: fmt.Sprintf("%q cannot be a file's name", name)}
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(home, dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, plainly(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, plainly(err)
	}
	if info, err := root.Lstat(name); err == nil && info.IsDir() {
		root.Close()
		return nil, fmt.Errorf("%s is a folder there", filepath.Join(dir, name))
	}
	if file := present(root, o); file != nil {
		return &unchanged{kept{
			root: root,
			part: file,
			to:   o.Place,
			name: name,
		}}, nil
	}
	k := &kept{root: root, to: o.Place}
	sum := Sum(o)
	hidden := "." + name + "." + hex.EncodeToString(sum[:8]) + ".gorun"
	if len(hidden) > 255 {
		hidden = "." + hex.EncodeToString(sum[:]) + ".gorun"
	}
	if k.part, k.name, err = partial(root, hidden); err != nil {
		root.Close()
		return nil, plainly(err)
	}
	k.again = k.name == hidden
	return k, nil
}

// present returns the file that an offer is about if it is there already, as an earlier relay left
// it.
func present(root *os.Root, o wire.Offer) *os.File {
	file, err := root.OpenFile(string(o.Name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	info, err := file.Stat()
	if err == nil && info.Mode().IsRegular() && info.Size() == o.Size && info.ModTime().UnixNano() == int64(o.Mtime) {
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

func (u *unchanged) Path() string { return filepath.Join(u.root.Name(), u.name) }

// partial opens the hidden file, locked. If another launch writes it, or it is somebody else's, it
// makes another one.
func partial(root *os.Root, name string) (*os.File, string, error) {
	for n := 0; ; n++ {
		tried := name
		if n > 0 {
			tried = fmt.Sprintf("%s.%d", name, n)
		}
		file, err := root.OpenFile(tried, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err == nil {
			if err = claim(file); err == nil {
				return file, tried, nil
			}
			file.Close()
		}
		// Not more than would be left by that many launches at a time.
		if n == 100 || errors.Is(err, fs.ErrPermission) && n == 0 || errors.Is(err, unix.ENOSPC) ||
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
	path := filepath.Join(k.root.Name(), string(k.to.Name))
	err := k.part.Chmod(fs.FileMode(k.to.Mode) & fs.ModePerm)
	if err == nil {
		at := time.Unix(0, int64(k.to.Mtime))
		err = k.root.Chtimes(k.name, at, at)
	}
	if err == nil {
		err = k.root.Rename(k.name, string(k.to.Name))
	}
	k.done = err == nil
	return path, plainly(err)
}

func (k *kept) Close() error {
	var err error
	if !k.again && !k.done && k.name != string(k.to.Name) {
		err = k.root.Remove(k.name)
	}
	return errors.Join(err, k.part.Close(), k.root.Close())
}

// plainly says which path failed, not which system call.
func plainly(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("%s: %w", path.Path, path.Err)
	}
	return err
}
