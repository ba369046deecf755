package workdir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// target is a copy that this process has locked.
type target struct {
	base *os.Root // ~/.cache/gorun/work
	name string
	lock *os.File
	real map[string]bool // whether a path in the copy is a folder, not a link; filled by isFolder
}

// state is the content of the JSON file beside a copy.
type state struct {
	Machine string   `json:"machine"`
	Dir     Name     `json:"dir"`
	Entries []Record `json:"entries"`
}

// close releases the lock.
func (c *target) close() {
	_ = c.base.RemoveAll(c.fresh(""))
	c.lock.Close()
}

// path returns the path of an entry of the copy, below base.
func (c *target) path(rel string) string { return filepath.Join(c.name, rel) }

// fresh returns the path of an incomplete file: beside the copy, on the same file system.
func (c *target) fresh(file string) string { return filepath.Join(c.name+".new", file) }

// part returns the path of a pack that has not come yet.
func (c *target) part() string { return c.name + ".part" }

func (c *target) stateFile() string { return c.name + ".json" }

// records returns what was staged in the copy. It returns nil if the record is missing or
// malformed: everything is then staged again, and nothing is removed.
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

// remember writes the copy's record, in the order of the offer.
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

// at returns what is at a path of the copy.
func (c *target) at(rel string) Entry {
	info, err := c.base.Lstat(c.path(rel))
	if err != nil {
		return Entry{}
	}
	e := EntryOf(rel, info)
	if e.Kind == Link {
		to, _ := c.base.Readlink(c.path(rel))
		e.Target = Name(to)
	}
	return e
}

// staged is at for paths through folders only: it finds nothing behind a link that a rank has put
// in place of a folder.
func (c *target) staged(rel string) Entry {
	if !c.isFolder(filepath.Dir(rel)) {
		return Entry{}
	}
	return c.at(rel)
}

func (c *target) isFolder(rel string) bool {
	if rel == "." {
		return true
	}
	is, known := c.real[rel]
	if !known {
		is = c.isFolder(filepath.Dir(rel)) && c.at(rel).Kind == Dir
		c.real[rel] = is
	}
	return is
}

// remove removes paths. A folder that is not empty stays.
func (c *target) remove(paths []string) error {
	for _, p := range paths {
		folder := c.at(p).Kind == Dir
		if err := c.base.Remove(c.path(p)); err != nil && !folder && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// makeRoom removes an empty folder at the path of a file or link.
func (c *target) makeRoom(e Entry) error {
	now := c.at(string(e.Path))
	if now.Kind != Dir || now.Kind == e.Kind {
		return nil
	}
	if err := c.base.Remove(c.path(string(e.Path))); err != nil {
		return fmt.Errorf("%s is a folder with files of earlier jobs, and has become a file where it is staged from: "+
			"move it away on the host",
			filepath.Join(c.base.Name(), c.path(string(e.Path))))
	}
	return nil
}

// frame makes folders and links. It replaces links that ranks have put in place of folders, so that
// nothing is written through them later.
func (c *target) frame(entries []Entry) error {
	for _, e := range entries {
		p := c.path(string(e.Path))
		now := c.at(string(e.Path))
		switch {
		case e.Kind == Dir:
			if now.Kind != Dir {
				_ = c.base.Remove(p) // a file or link; if that fails, so does Mkdir
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

// finishModes sets the modes of folders, after everything below them is written, and of files that
// only differ in mode. The owner may always write to a folder, so that the next launch can.
func (c *target) finishModes(entries []Entry, files []int) error {
	for _, i := range files {
		if err := c.base.Chmod(c.path(string(entries[i].Path)), entries[i].Mode); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if now := c.at(string(e.Path)); e.Kind == Dir && now.Mode != e.Mode|0o700 {
			if err := c.base.Chmod(c.path(string(e.Path)), e.Mode|0o700); err != nil {
				return err
			}
		}
	}
	return nil
}

// touch sets the mode and time of a file that has the right content. It leaves a file that a rank
// has written since.
func (c *target) touch(e Entry, was Record) error {
	if !c.at(string(e.Path)).sameContent(was.Entry) {
		return nil
	}
	p := c.path(string(e.Path))
	return errors.Join(c.base.Chmod(p, e.Mode), c.base.Chtimes(p, timeOf(e), timeOf(e)))
}
