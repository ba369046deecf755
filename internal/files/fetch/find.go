package fetch

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/files/workdir"
	"github.com/gorun/gorun/internal/net/wire"
)

// finder collects what a host is asked for.
type finder struct {
	List
	places []place           // where the entries are on this host
	at     map[string]string // path on this host, by the path of an entry
	names  int               // names in the paths of the entries
	left   int               // files that are left out
	seen   int               // names that were compared with a pattern
	held   int               // items of the folders that are walked now
}

// Others may make links from a folder to itself, whose names match part after part of a pattern.
const maxSeen = 1 << 26

// place is the path of a file, and which file was there when it was listed.
type place struct {
	path          string
	device, inode uint64
}

func placeOf(path string, info fs.FileInfo) place {
	stat := info.Sys().(*syscall.Stat_t)
	return place{path, uint64(stat.Dev), stat.Ino}
}

// find lists what a launcher asks for. home is where relative folders begin.
func find(ask wire.Fetch, home string) (*finder, error) {
	f := &finder{at: map[string]string{}}
	for _, from := range ask.From {
		dir := string(from.Dir)
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(home, dir)
		}
		if marked(dir, ask.Here) {
			f.Shared = true
			continue
		}
		for _, pattern := range from.Patterns {
			names, err := f.glob(dir, pattern)
			if err != nil {
				return nil, relay.Plainly(err)
			}
			if len(names) == 0 {
				f.Missing = append(f.Missing, filepath.Join(dir, pattern))
			}
			for _, name := range names {
				if err := f.match(dir, name); err != nil {
					return nil, relay.Plainly(err)
				}
			}
		}
	}
	if more := f.left - len(f.Notes); more > 0 {
		f.Notes[maxNotes-1] += fmt.Sprintf("; %d more", more)
	}
	return f, nil
}

// glob returns the paths in dir that match a pattern. As in a shell, * matches no leading dot, and
// a pattern that matches nothing may be a name.
func (f *finder) glob(dir, pattern string) ([]string, error) {
	found := []string{"."}
	for part := range strings.SplitSeq(pattern, "/") {
		var next []string
		for _, name := range found {
			more, err := f.matches(dir, name, part)
			if err != nil {
				return nil, err
			}
			if next = append(next, more...); len(next) > maxEntries {
				return nil, tooMany()
			}
		}
		found = next
	}
	if _, err := os.Lstat(filepath.Join(dir, pattern)); len(found) == 0 && err == nil {
		return []string{filepath.Clean(pattern)}, nil
	}
	return found, nil
}

// matches returns the paths of what matches one part of a pattern in the folder at dir/name.
func (f *finder) matches(dir, name, part string) (all []string, err error) {
	if !strings.ContainsAny(part, `*?[\`) {
		rel := filepath.Join(name, part)
		_, err := os.Lstat(filepath.Join(dir, rel))
		if isMissing(err) {
			return nil, nil
		}
		return []string{rel}, err
	}
	folder, err := os.OpenFile(filepath.Join(dir, name), os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	names, err := f.namesIn(folder, part)
	for _, found := range names {
		all = append(all, filepath.Join(name, found))
	}
	return all, err
}

// namesIn returns the names in a folder that match one part of a pattern, sorted. Others may have
// made more names there than memory has room for.
func (f *finder) namesIn(folder *os.File, part string) (all []string, err error) {
	for {
		some, err := folder.Readdirnames(1024)
		if f.seen += len(some); f.seen > maxSeen {
			return nil, fmt.Errorf("more than %d names were compared: give a pattern with fewer folders", maxSeen)
		}
		for _, name := range some {
			is, err := fits(name, part)
			if err != nil {
				return nil, err
			}
			if is {
				all = append(all, name)
			}
		}
		if len(all) > maxEntries {
			return nil, tooMany()
		}
		if err == io.EOF {
			slices.Sort(all)
			return all, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func tooMany() error {
	return fmt.Errorf("more than %d files and folders match: bring fewer at a time", maxEntries)
}

// fits reports whether a name matches one part of a pattern. All match "".
func fits(name, part string) (bool, error) {
	if part == "" {
		return true, nil
	}
	is, err := filepath.Match(part, name)
	return is && (name[0] != '.' || part[0] == '.'), err
}

func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// match adds what the user has named, with the folders that lead to it and what is in it. It
// follows a link of that name.
func (f *finder) match(dir, name string) error {
	for i, c := range name {
		if c != '/' {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, name[:i]))
		if err == nil {
			err = f.add(dir, name[:i], item{FileInfo: info})
		}
		if err != nil {
			return err
		}
	}
	at := filepath.Join(dir, name)
	info, err := os.Stat(at)
	if err != nil {
		return err
	}
	if name != "." {
		err = f.add(dir, name, item{FileInfo: info})
	}
	if err != nil || !info.IsDir() {
		return err
	}
	return f.walk(dir, name, info)
}

// item is what is in a folder.
type item struct {
	fs.FileInfo
	target string // of a link
}

// walk adds what is in a folder that was listed.
func (f *finder) walk(dir, name string, listed fs.FileInfo) error {
	all, err := f.read(filepath.Join(dir, name), listed)
	if err != nil {
		return err
	}
	if f.held += len(all); f.held > maxEntries {
		return tooMany()
	}
	defer func() { f.held -= len(all) }()
	for _, info := range all {
		rel := filepath.Join(name, info.Name())
		err := f.add(dir, rel, info)
		if err == nil && info.IsDir() {
			err = f.walk(dir, rel, info)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// read returns what is in the folder that was listed at a path. Another user may have put a link in
// its place, to a folder that only this user may enter, so that nothing is found by its path.
func (f *finder) read(path string, listed fs.FileInfo) (all []item, err error) {
	folder, err := os.OpenRoot(path + "/.") // no pipe, for whose writer it would wait, and no terminal
	if failed, is := errors.AsType[*fs.PathError](err); is {
		failed.Path = path
	}
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	top, err := folder.Open(".")
	if err != nil {
		return nil, err
	}
	defer top.Close()
	if info, err := top.Stat(); err != nil || placeOf(path, info) != placeOf(path, listed) {
		return nil, cmp.Or(err, replaced(path))
	}
	names, err := f.namesIn(top, "")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		info, err := folder.Lstat(name)
		one := item{FileInfo: info}
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			one.target, err = folder.Readlink(name)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since
		}
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func replaced(path string) error {
	return fmt.Errorf("%s was replaced while it was copied: copy again", path)
}

// add adds one entry, unless it is there already or cannot be copied.
func (f *finder) add(dir, rel string, info item) error {
	at := filepath.Join(dir, rel)
	e := workdir.EntryOf(rel, info)
	other, twice := f.at[rel]
	switch {
	case twice && (other == at || e.Kind == workdir.Dir && info.IsDir()):
		return nil
	case twice:
		return fmt.Errorf("%s and %s would be the same file", other, at)
	case e.Kind == "":
		f.leave("%s is left out: it is no file, folder or link", at)
		return nil
	case e.Kind == workdir.Link:
		short := relative(dir, at, info.target)
		if e.Target = workdir.Name(short); !inside(rel, short) {
			f.leave("%s is left out: it is a link to %s, outside what is copied", at, info.target)
			return nil
		}
	}
	if len(f.Entries) == maxEntries {
		return tooMany()
	}
	if f.names += e.Names(); f.names > workdir.MaxNames {
		return fmt.Errorf("the paths of what matches have more than %d names: bring fewer folders at a time",
			workdir.MaxNames)
	}
	f.at[rel] = at
	f.Entries = append(f.Entries, e)
	f.places = append(f.places, placeOf(at, info))
	return nil
}

// relative returns the target of a link at a path, relative to its folder if it is below dir.
func relative(dir, at, target string) string {
	if !filepath.IsAbs(target) {
		return target
	}
	if to, err := filepath.Rel(dir, target); err == nil && filepath.IsLocal(to) {
		if short, err := filepath.Rel(filepath.Dir(at), target); err == nil {
			return short
		}
	}
	return target
}

func (f *finder) leave(format string, args ...any) {
	if f.left++; len(f.Notes) < maxNotes {
		f.Notes = append(f.Notes, fmt.Sprintf(format, args...))
	}
}

// sources returns the files of the list, in its order.
func (f *finder) sources() (all []source) {
	for i, e := range f.Entries {
		if e.Kind == workdir.File {
			all = append(all, source{e, f.places[i]})
		}
	}
	return slices.Clip(all)
}
