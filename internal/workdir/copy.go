package workdir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// target is a copy that this process changes, holding its lock.
type target struct {
	base *os.Root // ~/.cache/gorun/work
	name string
	lock *os.File
	real map[string]bool // folders that are no links, by path in the copy, as far as compare has looked
}

// state is what the file beside a copy tells.
type state struct {
	Machine string   `json:"machine"`
	Dir     Name     `json:"dir"`
	Entries []Record `json:"entries"`
}

// close lets the next one have the copy.
func (c *target) close() {
	_ = c.base.RemoveAll(c.fresh(""))
	c.lock.Close()
}

// path is where an entry of the copy stands, below base.
func (c *target) path(rel string) string { return filepath.Join(c.name, rel) }

// fresh is where a file is until it is whole: beside the copy, in the same file system.
func (c *target) fresh(file string) string { return filepath.Join(c.name+".new", file) }

func (c *target) stateFile() string { return c.name + ".json" }

// records reads what was put into the copy. A file that makes no sense is one that knows nothing: all is
// put there again, and nothing is taken away.
func (c *target) records() map[Name]Record {
	text, err := c.base.ReadFile(c.stateFile())
	if err != nil {
		return nil
	}
	return parseRecords(text)
}

func parseRecords(text []byte) map[Name]Record {
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		return nil
	}
	records := make(map[Name]Record, len(s.Entries))
	for _, r := range s.Entries {
		if checkPath(string(r.Path)) != nil {
			return nil
		}
		records[r.Path] = r
	}
	return records
}

// remember writes what is in the copy, in the order of the offer.
func (c *target) remember(o Offer, records map[Name]Record) error {
	s := state{Machine: o.Machine, Dir: o.Dir}
	for _, e := range o.Entries {
		if r, known := records[e.Path]; known {
			s.Entries = append(s.Entries, r)
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	temp := c.fresh("state")
	if err := c.base.WriteFile(temp, text, 0o600); err != nil {
		return err
	}
	return c.base.Rename(temp, c.stateFile())
}

// there tells what stands at a path of the copy.
func (c *target) there(rel string) Entry {
	info, err := c.base.Lstat(c.path(rel))
	if err != nil {
		return Entry{}
	}
	e := entryOf(rel, info)
	if e.Kind == Link {
		to, _ := c.base.Readlink(c.path(rel))
		e.Target = Name(to)
	}
	return e
}

// staged tells what stands at a path that leads through folders alone: a link that a rank has put in a
// folder's place hides what is behind it.
func (c *target) staged(rel string) Entry {
	if !c.isFolder(filepath.Dir(rel)) {
		return Entry{}
	}
	return c.there(rel)
}

func (c *target) isFolder(rel string) bool {
	if rel == "." {
		return true
	}
	is, known := c.real[rel]
	if !known {
		is = c.isFolder(filepath.Dir(rel)) && c.there(rel).Kind == Dir
		c.real[rel] = is
	}
	return is
}

// remove takes away what was staged once. A folder that still holds something stays.
func (c *target) remove(paths []string) (removed int, err error) {
	for _, p := range paths {
		folder := c.there(p).Kind == Dir
		switch err := c.base.Remove(c.path(p)); {
		case err == nil:
			removed++
		case !folder && !errors.Is(err, fs.ErrNotExist):
			return removed, err
		}
	}
	return removed, nil
}

// makeRoom takes away what stands where a file or link goes: another link, or an empty folder.
func (c *target) makeRoom(e Entry) error {
	now := c.there(string(e.Path))
	if now.Kind != Dir || now.Kind == e.Kind {
		return nil
	}
	if err := c.base.Remove(c.path(string(e.Path))); err != nil {
		return fmt.Errorf("%s is a folder with files of earlier jobs, and has become a file where it is staged from: move it away on the host",
			filepath.Join(c.base.Name(), c.path(string(e.Path))))
	}
	return nil
}

// frame makes folders and links. Every folder is a real one afterwards: nothing that is written below
// it goes through a link that a rank has made.
func (c *target) frame(entries []Entry) error {
	for _, e := range entries {
		p, now := c.path(string(e.Path)), c.there(string(e.Path))
		switch {
		case e.Kind == Dir:
			if now.Kind != Dir {
				_ = c.base.Remove(p) // a file or link; if it stays, Mkdir says so
				if err := c.base.Mkdir(p, 0o700); err != nil {
					return err
				}
			}
		case e.Kind == Link && !now.sameContent(e):
			if err := c.makeRoom(e); err != nil {
				return err
			}
			temp := c.fresh("link")
			if err := c.base.Symlink(string(e.Target), temp); err != nil {
				return err
			}
			if err := c.base.Rename(temp, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// finishModes gives folders their modes, when nothing more is written below them. Their owner may
// always write: the next time must be able to.
func (c *target) finishModes(entries []Entry, files []int) error {
	for _, i := range files {
		if err := c.base.Chmod(c.path(string(entries[i].Path)), entries[i].Mode); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if now := c.there(string(e.Path)); e.Kind == Dir && now.Mode != e.Mode|0o700 {
			if err := c.base.Chmod(c.path(string(e.Path)), e.Mode|0o700); err != nil {
				return err
			}
		}
	}
	return nil
}

// touch makes a file that has the content already have the rest, too. What a rank has written there since stays.
func (c *target) touch(e Entry, was Record) error {
	if !c.there(string(e.Path)).sameContent(was.Entry) {
		return nil
	}
	p := c.path(string(e.Path))
	return errors.Join(c.base.Chmod(p, e.Mode), c.base.Chtimes(p, timeOf(e), timeOf(e)))
}

// trouble is err without the words that only name our calls.
func trouble(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("%s: %w", path.Path, path.Err)
	}
	return err
}
