package workdir

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"
)

// MaxEntries bounds the entries of a folder, whatever limit the user sets.
const MaxEntries = 1 << 20

// MaxNames bounds the names in the paths of all entries, for each of which folders are opened.
const MaxNames = 4 * MaxEntries

// Name is a path or the target of a link: any bytes but NUL. Its JSON form keeps bytes that are not
// UTF-8.
type Name string

// MarshalText writes a % and bytes that are not UTF-8 as %XX.
func (n Name) MarshalText() ([]byte, error) {
	var text []byte
	for s := string(n); s != ""; {
		r, size := utf8.DecodeRuneInString(s)
		if r == '%' || r == utf8.RuneError && size == 1 {
			text = fmt.Appendf(text, "%%%02X", s[0])
		} else {
			text = append(text, s[:size]...)
		}
		s = s[size:]
	}
	return text, nil
}

// UnmarshalText reads what MarshalText wrote.
func (n *Name) UnmarshalText(text []byte) error {
	s, err := url.PathUnescape(string(text))
	*n = Name(s)
	return err
}

// Kind is the kind of an entry.
type Kind string

// The kinds that are copied.
const (
	File Kind = "file"
	Dir  Kind = "dir"
	Link Kind = "link"
)

// Entry is a file, a folder or a symbolic link of a folder.
type Entry struct {
	Path   Name        `json:"path"` // relative path with slashes
	Kind   Kind        `json:"kind"`
	Size   int64       `json:"size,omitempty"`   // bytes of a file
	Mode   fs.FileMode `json:"mode,omitempty"`   // permissions of a file or folder
	Mtime  int64       `json:"mtime,omitempty"`  // modification time of a file in ns since 1970
	Target Name        `json:"target,omitempty"` // target of a link
}

// Names returns how many names the path has.
func (e Entry) Names() int { return strings.Count(string(e.Path), "/") + 1 }

// sameContent reports whether e and b differ at most in their modes.
func (e Entry) sameContent(b Entry) bool {
	return e.Kind == b.Kind && e.Size == b.Size && e.Mtime == b.Mtime && e.Target == b.Target
}

// Record is an entry as it was put into a copy.
type Record struct {
	Entry
	Sum     []byte `json:"sum,omitempty"`     // SHA-256 of a file
	Pending bool   `json:"pending,omitempty"` // whether the file may be missing still
}

// Check validates the entries of an offer: no path leads out of the folder, none comes twice, and
// every folder comes before its content.
func Check(entries []Entry) error {
	if len(entries) > MaxEntries {
		return fmt.Errorf("%d entries: at most %d", len(entries), MaxEntries)
	}
	kinds := map[string]Kind{".": Dir}
	names := 0
	for _, e := range entries {
		p := string(e.Path)
		if names += e.Names(); names > MaxNames {
			return fmt.Errorf("entry %.80q: with it the paths have more than %d names", p, MaxNames)
		}
		if err := checkPath(p); err != nil {
			return fmt.Errorf("entry %q: %w", p, err)
		}
		if _, twice := kinds[p]; twice {
			return fmt.Errorf("entry %q: it comes twice", p)
		}
		if kinds[path.Dir(p)] != Dir {
			return fmt.Errorf("entry %q: its folder does not come before it", p)
		}
		kinds[p] = e.Kind
		switch {
		case e.Kind != File && e.Kind != Dir && e.Kind != Link:
			return fmt.Errorf("entry %q: unknown kind %.40q", p, e.Kind)
		case e.Size < 0 || e.Mode&^fs.ModePerm != 0:
			return fmt.Errorf("entry %q: size %d, mode %o", p, e.Size, e.Mode)
		case e.Kind == Link && !inside(p, string(e.Target)):
			return fmt.Errorf("entry %q: the link leads to %q, out of the folder", p, e.Target)
		}
	}
	return nil
}

func checkPath(p string) error {
	switch {
	case p == "" || p == "." || p != path.Clean(p) || strings.IndexByte(p, 0) >= 0:
		return errors.New("it is not a clean path")
	case path.IsAbs(p) || p == ".." || strings.HasPrefix(p, "../"):
		return errors.New("it leads out of the folder")
	}
	return nil
}

// inside reports whether the target of a link at p is in the folder. It does not read the file
// system.
func inside(p, target string) bool {
	if target == "" || path.IsAbs(target) || strings.IndexByte(target, 0) >= 0 {
		return false
	}
	to := path.Join(path.Dir(p), target)
	return to != ".." && !strings.HasPrefix(to, "../")
}

// SizeText formats n bytes for people: "3.4 MB".
func SizeText(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d bytes", n)
	}
	size := float64(n) / 1000
	unit := 0
	for size >= 999.95 && unit < 3 {
		size /= 1000
		unit++
	}
	return fmt.Sprintf("%.1f %cB", size, "kMGT"[unit])
}

func (r Record) equal(b Record) bool {
	return r.Entry == b.Entry && r.Pending == b.Pending && string(r.Sum) == string(b.Sum)
}
