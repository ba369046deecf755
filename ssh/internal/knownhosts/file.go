package knownhosts

import (
	"bytes"
	"slices"

	"github.com/gorun/gorun/internal/files/trust"
)

// maxFile is the largest size of a file in bytes.
const maxFile = 256 << 20

// File holds the entries of a known_hosts file by host. It does not change, and is safe for
// concurrent use.
type File struct {
	Name    string
	entries []Entry
	named   map[string][]int // indices of entries that list a name without patterns, by that name
	others  []int            // entries with patterns or a hashed name
}

// Read reads a file. It leaves out lines that do not parse, as ssh does.
func Read(name string) (*File, error) {
	text, err := trust.ReadFile(name, maxFile)
	if err != nil {
		return nil, err
	}
	return Parse(name, text), nil
}

// Parse is Read for the text of a file, or of what has such lines as well.
func Parse(name string, text []byte) *File {
	f := &File{Name: name, named: map[string][]int{}}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if e, ok := parse(line); ok {
			e.File = name
			e.Line = number
			f.add(e)
		}
	}
	return f
}

func (f *File) add(e Entry) {
	at := len(f.entries)
	f.entries = append(f.entries, e)
	names, plain := e.names()
	if !plain {
		f.others = append(f.others, at)
	}
	for _, name := range names {
		if of := f.named[name]; !slices.Contains(of, at) {
			f.named[name] = append(of, at)
		}
	}
}

// Of returns the entries about a host in the order of their lines. The name is in lower case, and
// of the form [host]:port for a port other than 22.
func (f *File) Of(name string) (entries []Entry) {
	places := slices.Clone(f.named[name])
	for _, at := range f.others {
		if f.entries[at].matches(name) {
			places = append(places, at)
		}
	}
	slices.Sort(places)
	for _, at := range places {
		entries = append(entries, f.entries[at])
	}
	return entries
}
