package workdir

import (
	"slices"
	"strings"
)

// want is a file of the offer that a copy lacks or may lack.
type want struct {
	Index int    `json:"index"`         // in the offer
	Sum   []byte `json:"sum,omitempty"` // what the copy has of that size; only the time differs
}

// changes are what makes a copy like an offer.
type changes struct {
	remove []string // what was staged once and is gone: what is in a folder comes before it
	want   []want   // files whose content may be another
	remode []int    // entries of which the mode alone is another
}

// compare decides what must happen to a copy that holds what records say, so that it becomes entries. there
// tells what stands at a path now: what ranks have written stays, unless the folder itself has changed
// at that path. It is pure.
func compare(entries []Entry, records map[Name]Record, there func(path string) Entry) changes {
	var c changes
	offered := make(map[Name]Kind, len(entries))
	for i, e := range entries {
		offered[e.Path] = e.Kind
		r, known := records[e.Path]
		now := there(string(e.Path))
		current := known && !r.Pending && now.Kind == e.Kind
		switch {
		case e.Kind == File && current && r.sameContent(e):
			if r.Mode != e.Mode {
				c.remode = append(c.remode, i)
			}
		case e.Kind == File && current && r.Size == e.Size:
			c.want = append(c.want, want{i, r.Sum})
		case e.Kind == File:
			c.want = append(c.want, want{i, nil})
		}
	}
	for p, r := range records {
		if kind, still := offered[p]; still && kind == r.Kind {
			continue
		}
		// A file that ranks have changed is theirs now.
		if now := there(string(p)); now.sameContent(r.Entry) {
			c.remove = append(c.remove, string(p))
		}
	}
	deepestFirst(c.remove)
	return c
}

// after are the records of a copy while it becomes entries: what is wanted is on its way.
func after(entries []Entry, records map[Name]Record, c changes) map[Name]Record {
	wanted := make(map[int]bool, len(c.want))
	for _, w := range c.want {
		wanted[w.Index] = true
	}
	now := make(map[Name]Record, len(entries))
	for i, e := range entries {
		r := Record{Entry: e, Sum: records[e.Path].Sum}
		if wanted[i] {
			r.Sum, r.Pending = nil, true
		}
		now[e.Path] = r
	}
	return now
}

// deepestFirst orders paths so that what is in a folder comes before it.
func deepestFirst(paths []string) {
	slices.SortFunc(paths, func(a, b string) int { return strings.Compare(b, a) })
}
