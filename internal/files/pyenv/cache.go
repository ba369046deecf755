package pyenv

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/net/wire"
)

const (
	// maxCached is how many environments a cache has at most, beside those in use, and maxBytes how
	// large they are together.
	maxCached = 8
	maxBytes  = 32 << 30

	lockPause = 20 * time.Millisecond // delay between two checks for an environment that another launch makes
)

// A cache has, for each environment, the folder KEY, and the file KEY.lock, which says how many
// bytes the folder has. The lock's time is that of the last use. Launches that use an
// environment hold a shared lock, one that makes or removes it an exclusive lock.

// Open opens the target for an environment of which an offer has the key as its name, or returns
// the one that is there. The process holds a lock on it until it ends. If the offer only asks, the
// target is nil where there is none. home is the home directory.
func Open(o wire.Offer, home string) (relay.Target, error) {
	key := string(o.Name)
	if raw, err := hex.DecodeString(key); err != nil || len(raw) != 16 {
		return nil, &wire.FormatError{Reason: fmt.Sprintf("%q is no key of an environment", key)}
	}
	base, err := makeBase(bases(string(o.Dir), home))
	if err != nil {
		return nil, err
	}
	c := &cached{base: base, key: key, lock: -1}
	if err := hold(base); err != nil {
		return nil, err
	}
	if err := c.use(); err == nil {
		return &present{c}, nil
	} else if o.Ask {
		return nil, nil
	}
	if c.pack, err = os.CreateTemp(base, key+".pack-*"); err != nil {
		return nil, err
	}
	// Without a name it is gone with this process, however that ends.
	if err = os.Remove(c.pack.Name()); err != nil {
		return nil, errors.Join(err, c.pack.Close())
	}
	return c, nil
}

// hold locks the folder for environments for as long as this process lives. systemd-tmpfiles leaves
// locked folders alone. From others in /var/tmp it removes what nobody has read for 30 days, and
// then any user could make a folder of that name for a job that still runs in it.
func hold(base string) error {
	fd, err := unix.Open(base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) // a file system of a network may lock no folders
	}
	return err
}

// bases are the folders for environments on a host, best first: the one that the user has chosen,
// or one on a disk of the host, then the home directory.
func bases(chosen, home string) []string {
	switch {
	case filepath.IsAbs(chosen):
		return []string{chosen}
	case chosen != "":
		return []string{filepath.Join(home, chosen)}
	}
	return []string{fmt.Sprintf("/var/tmp/gorun-%d/env", os.Getuid()), filepath.Join(home, ".cache/gorun/env")}
}

// makeBase makes the first folder that is possible and safe.
func makeBase(bases []string) (string, error) {
	var errs error
	for _, base := range bases {
		err := trust.MakeDir(base)
		if err == nil {
			err = trust.Check(base)
		}
		if err == nil && unix.Access(base, unix.W_OK|unix.X_OK) == nil {
			return base, nil
		}
		errs = errors.Join(errs, err)
	}
	return "", fmt.Errorf("make a folder for Python environments: %w", errs)
}

// cached is an environment that is being made.
type cached struct {
	base, key string
	pack      *os.File
	lock      int // file descriptor, not an *os.File, which the garbage collector would close
}

// present is an environment that is there.
type present struct{ *cached }

func (p *present) Path() string { return p.dir() }

func (c *cached) dir() string      { return filepath.Join(c.base, c.key) }
func (c *cached) lockName() string { return c.dir() + ".lock" }

// use locks an environment that is there, for as long as this process lives.
func (c *cached) use() error {
	if _, err := os.Lstat(c.dir()); err != nil {
		return err
	}
	fd, err := lockFile(c.lockName(), unix.LOCK_SH)
	if err != nil {
		return err
	}
	if _, err = os.Lstat(c.dir()); err == nil {
		now := time.Now()
		_ = os.Chtimes(c.lockName(), now, now) // best effort: only the order of removal depends on it
		c.lock = fd
		return nil
	}
	return errors.Join(err, unix.Close(fd))
}

// lockFile locks a file, which it makes if it is missing, and waits for that. Whoever removes an
// environment removes the file as well.
func lockFile(name string, how int) (fd int, err error) {
	for {
		fd, err := unix.Open(name, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return -1, fmt.Errorf("%s: %w", name, err)
		}
		for err = unix.EINTR; err == unix.EINTR; {
			err = unix.Flock(fd, how)
		}
		var locked, named unix.Stat_t
		if err == nil {
			err = unix.Fstat(fd, &locked)
		}
		if err == nil && unix.Lstat(name, &named) == nil && locked.Ino == named.Ino {
			return fd, nil
		}
		if cerr := unix.Close(fd); err != nil {
			return -1, fmt.Errorf("lock %s: %w", name, errors.Join(err, cerr))
		}
	}
}

func (c *cached) File() *os.File { return c.pack }

// Finish makes the environment of the pack, unless another launch has made it meanwhile.
func (c *cached) Finish() (string, error) {
	for c.use() != nil {
		fd, err := lockFile(c.lockName(), unix.LOCK_EX|unix.LOCK_NB)
		// another launch makes it; those that use it keep shared locks for as long as they live
		if errors.Is(err, unix.EWOULDBLOCK) {
			time.Sleep(lockPause)
			continue
		}
		if err != nil {
			return "", err
		}
		if _, err = os.Lstat(c.dir()); errors.Is(err, fs.ErrNotExist) {
			err = c.make()
		}
		if err == nil {
			c.evict(maxCached, maxBytes)
		}
		if err = errors.Join(err, unix.Close(fd)); err != nil {
			return "", err
		}
	}
	return c.dir(), nil
}

func (c *cached) make() error {
	part := c.dir() + ".part"
	if err := removeAll(part); err != nil { // left by an interrupted launch
		return err
	}
	if err := os.Mkdir(part, 0o700); err != nil {
		return err
	}
	if _, err := c.pack.Seek(0, io.SeekStart); err != nil {
		return err
	}
	err := unpack(c.pack, part, c.dir(), room{maxFiles, maxNames, maxBytes})
	if err == nil {
		var size int64
		if size, err = sizeOf(part); err == nil {
			err = os.WriteFile(c.lockName(), []byte(strconv.FormatInt(size, 10)), 0o600)
		}
	}
	if err == nil {
		err = os.Rename(part, c.dir())
	}
	if err == nil {
		err = hasInterpreter(c.dir()) // its links lead to the folder's final path
	}
	if err != nil {
		return errors.Join(err, removeAll(part), removeAll(c.dir()))
	}
	return nil
}

// hasInterpreter reports whether the interpreter of an environment is there: that of a virtual
// environment is a link to a file of the host.
func hasInterpreter(dir string) error {
	for _, name := range []string{"python", "python3"} {
		target, err := filepath.EvalSymlinks(filepath.Join(dir, "bin", name))
		if err == nil && target != "" {
			return nil
		}
	}
	link, _ := os.Readlink(filepath.Join(dir, "bin/python"))
	if chained, err := os.Readlink(filepath.Join(dir, "bin", filepath.Base(link))); err == nil &&
		!filepath.IsAbs(link) {
		link = chained
	}
	return fmt.Errorf("the environment's interpreter %s is not on this host: install it there, or stage a conda "+
		"prefix, which has its own", link)
}

// Forget has no effect: no later launch finds the pack.
func (c *cached) Forget() {}

// Close frees the pack.
func (c *cached) Close() error {
	if c.pack == nil {
		return nil
	}
	return c.pack.Close()
}

// evict removes environments, and what interrupted launches left, the longest unused first, until
// there are few enough and they are small enough. It skips those in use. What it cannot remove
// stays.
func (c *cached) evict(most int, bytes int64) {
	entries, err := os.ReadDir(c.base)
	if err != nil {
		return
	}
	type other struct {
		key  string
		used time.Time
		size int64
	}
	var all []other
	for _, e := range entries {
		key, is := strings.CutSuffix(e.Name(), ".lock")
		info, err := e.Info()
		if !is || err != nil || key == c.key {
			continue
		}
		text, _ := os.ReadFile(filepath.Join(c.base, e.Name()))
		size, _ := strconv.ParseInt(string(text), 10, 64)
		all = append(all, other{key, info.ModTime(), size})
	}
	slices.SortFunc(all, func(a, b other) int { return b.used.Compare(a.used) }) // most recently used first
	kept := 1
	total := int64(0)
	if text, err := os.ReadFile(c.lockName()); err == nil {
		total, _ = strconv.ParseInt(string(text), 10, 64)
	}
	for _, o := range all {
		if kept++; kept <= most && total+o.size <= bytes {
			total += o.size
			continue
		}
		c.remove(o.key)
	}
}

// remove removes an environment unless it is in use.
func (c *cached) remove(key string) {
	dir := filepath.Join(c.base, key)
	fd, err := unix.Open(dir+".lock", unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil && removeAll(dir) == nil && removeAll(dir+".part") == nil {
		_ = os.Remove(dir + ".lock")
	}
}

// removeAll removes a folder, also one whose folders may not be written.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if errors.Is(err, fs.ErrPermission) {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				err = os.Chmod(path, 0o700)
			}
			return err
		})
		err = os.RemoveAll(dir)
	}
	return err
}

func sizeOf(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				size += info.Size()
			}
		}
		return err
	})
	return size, err
}
