package fetch

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/files/workdir"
	"github.com/gorun/gorun/internal/net/untrusted"
	"github.com/gorun/gorun/internal/net/wire"
)

// List is what a host will send.
type List struct {
	Entries []workdir.Entry // every folder before its content; paths are below the launcher's folder
	Missing []string        `json:",omitempty"` // patterns that match nothing
	Notes   []string        `json:",omitempty"` // files that are left out, a line each
	// Shared reports that the launcher's folder is one of the host's, of which nothing is sent.
	Shared bool `json:",omitempty"`
}

const (
	maxEntries = 1 << 18  // entries of a list
	maxList    = 64 << 20 // bytes of a list, compressed or not: a hostile host may send much
	maxValues  = 8 * maxEntries
	maxNotes   = 16
	maxName    = 255 // bytes of a name, as Linux has it (NAME_MAX)
)

func (l *List) write(w io.Writer) error {
	zip, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
	return errors.Join(json.NewEncoder(zip).Encode(l), zip.Close())
}

// readList reads and validates a list, which comes from a host.
func readList(r io.Reader) (*List, error) {
	came := &io.LimitedReader{R: r, N: maxList} // a stream without end may hold no byte of text
	zip, err := gzip.NewReader(bufio.NewReader(came))
	if err != nil {
		return nil, err
	}
	zip.Multistream(false) // otherwise zip would wait for another frame
	text, err := io.ReadAll(io.LimitReader(zip, maxList+1))
	if len(text) > maxList || came.N == 0 {
		return nil, errors.New("the list of files is too long: bring fewer at a time")
	}
	if err != nil {
		return nil, err
	}
	var l List
	if err := untrusted.Unmarshal(text, maxValues, &l); err != nil {
		return nil, &wire.FormatError{Reason: err.Error()}
	}
	l.Notes = l.Notes[:min(len(l.Notes), maxNotes)]
	l.Missing = l.Missing[:min(len(l.Missing), maxNotes)]
	return &l, l.check()
}

// check returns an error unless all entries stay in the launcher's folder, with names that errors
// may quote. A link must not rise above what it goes through: x/.. is outside where x is a link to
// the top.
func (l *List) check() error {
	for _, e := range l.Entries {
		if n := max(len(e.Path), len(e.Target)); n > wire.MaxPath {
			return &wire.FormatError{Reason: fmt.Sprintf("entry %.80q: a path of %d bytes, at most %d", e.Path, n,
				wire.MaxPath)}
		}
		if n := len(path.Base(string(e.Path))); n > maxName { // making it here would fail as if of this machine
			return &wire.FormatError{Reason: fmt.Sprintf("entry %.80q: a name of %d bytes, at most %d", e.Path, n,
				maxName)}
		}
	}
	if err := workdir.Check(l.Entries); err != nil {
		return &wire.FormatError{Reason: err.Error()}
	}
	for _, e := range l.Entries {
		if e.Kind == workdir.Link && string(e.Target) != path.Clean(string(e.Target)) {
			return &wire.FormatError{Reason: fmt.Sprintf("entry %q: a link to %q", e.Path, e.Target)}
		}
	}
	return nil
}

// inside reports whether the target of a link at rel stays in the launcher's folder, as check
// demands.
func inside(rel, target string) bool {
	to := path.Join(path.Dir(rel), target)
	return target != "" && target == path.Clean(target) && !path.IsAbs(target) && to != ".." &&
		!strings.HasPrefix(to, "../")
}

// checkAsked returns an error if there is an entry that the host was not asked for: it might take
// the place of any file of the launcher's folder.
func (l *List) checkAsked(ask wire.Fetch) error {
	var patterns []string
	for _, from := range ask.From {
		patterns = append(patterns, from.Patterns...)
	}
	for _, e := range l.Entries {
		if !slices.ContainsFunc(patterns, func(p string) bool { return isAsked(e, p) }) {
			return &wire.FormatError{Reason: fmt.Sprintf("%q comes, for which nobody has asked", e.Path)}
		}
	}
	return nil
}

// isAsked reports whether an entry matches a pattern, is in a folder that does, or is one that
// leads there.
func isAsked(e workdir.Entry, pattern string) bool {
	pattern = path.Clean(pattern)
	if pattern == "." {
		return true
	}
	names := strings.Split(string(e.Path), "/")
	for i, part := range strings.Split(pattern, "/") {
		if i == len(names) {
			return e.Kind == workdir.Dir
		}
		if is, _ := fits(names[i], part); !is && names[i] != part {
			return false
		}
	}
	return true
}

// One reports whether all that comes is one file, in no folder.
func (l *List) One() bool { return len(l.Entries) == 1 && l.Entries[0].Kind == workdir.File }

// files returns the number of files and their bytes.
func (l *List) files() (n int, bytes int64) {
	for _, e := range l.Entries {
		if e.Kind == workdir.File {
			n++
			bytes = sum(bytes, e.Size)
		}
	}
	return n, bytes
}

// lines writes a list as successive frames.
type lines struct{ out *wire.Writer }

func (w lines) Write(data []byte) (n int, err error) {
	for len(data) > 0 {
		piece := data[:min(len(data), wire.MaxData)]
		if err := w.out.Send(wire.TypeFolder, 0, piece); err != nil {
			return n, err
		}
		n += len(piece)
		data = data[len(piece):]
	}
	return n, nil
}
