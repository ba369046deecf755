package workdir

import (
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/net/wire"
)

// changes are the steps that make a copy equal to an offer.
type changes struct {
	remove []string          // paths that were staged and are no longer offered, a folder's content before the folder
	want   []wire.WantedFile // files whose content may differ
	remode []int             // entries of which only the mode differs
}

// compare returns the changes that turn a copy with the given records into entries. at returns what
// is at a path of the copy now: what ranks have written stays, unless the folder has changed at
// that path. It is pure.
func compare(entries []Entry, records map[Name]Record, at func(path string) Entry) changes {
	var c changes
	offered := make(map[Name]Kind, len(entries))
	for i, e := range entries {
		offered[e.Path] = e.Kind
		r, known := records[e.Path]
		now := at(string(e.Path))
		current := known && !r.Pending && now.Kind == e.Kind
		switch {
		case e.Kind == File && current && r.sameContent(e):
			if r.Mode != e.Mode {
				c.remode = append(c.remode, i)
			}
		case e.Kind == File && current && r.Size == e.Size:
			c.want = append(c.want, wire.WantedFile{Index: i, Sum: r.Sum})
		case e.Kind == File:
			c.want = append(c.want, wire.WantedFile{Index: i})
		}
	}
	for p, r := range records {
		if kind, still := offered[p]; still && kind == r.Kind {
			continue
		}
		// A file that a rank has changed is the rank's.
		if now := at(string(p)); now.sameContent(r.Entry) {
			c.remove = append(c.remove, string(p))
		}
	}
	slices.SortFunc(c.remove, func(a, b string) int { return strings.Compare(b, a) })
	return c
}

// after returns the records of a copy while it becomes entries. Wanted files are pending.
func after(entries []Entry, records map[Name]Record, c changes) map[Name]Record {
	wanted := make(map[int]bool, len(c.want))
	for _, w := range c.want {
		wanted[w.Index] = true
	}
	now := make(map[Name]Record, len(entries))
	for i, e := range entries {
		r := Record{Entry: e, Sum: records[e.Path].Sum}
		if wanted[i] {
			r.Sum = nil
			r.Pending = true
		}
		now[e.Path] = r
	}
	return now
}
