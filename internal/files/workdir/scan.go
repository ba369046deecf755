package workdir

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Default limits of a folder.
const (
	DefaultFiles = 10_000
	DefaultBytes = 1 << 30
)

// Tree is a scanned folder of this machine. It does not change.
type Tree struct {
	Dir      string // absolute path as the user gave it
	Entries  []Entry
	Files    int      // number of files among the entries
	Bytes    int64    // size of all files
	Warnings []string // skipped files that the user may need, one line each

	folder *os.File // Dir, opened before the scan; its name contains no links
	began  time.Time
	proofs []proof
}

// LimitError reports a folder above a limit.
type LimitError struct {
	Dir     string
	Over    string // limit and its unit: "more than 1.1 GB"
	Largest string // largest top-level entry
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s holds %s, most of it in %s", e.Dir, e.Over, e.Largest)
}

// Scan lists the content of dir, an absolute path, without what its [IgnoreFile] excludes, nor some
// paths below dir. It returns a *LimitError for more than the given number of files or bytes.
func Scan(dir string, files int, bytes int64, except ...string) (*Tree, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return nil, cmp.Or(err, fmt.Errorf("%s is not a folder", dir))
	}
	left, err := readIgnore(filepath.Join(real, IgnoreFile))
	if err != nil {
		return nil, fmt.Errorf("%s/%w", dir, err)
	}
	folder, err := os.OpenFile(real, pathOnly|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	s := scan{
		Tree:   &Tree{Dir: dir, folder: folder, began: time.Now()},
		left:   left,
		except: except,
		files:  files,
		bytes:  bytes,
		within: map[string]weight{},
	}
	info, err := folder.Stat()
	if err == nil {
		s.proofs = append(s.proofs, proofOf(".", info))
		err = s.walk(folder, ".")
	}
	if err != nil {
		folder.Close()
		return nil, err
	}
	s.Tree.proofs = newest(s.proofs)
	return s.Tree, nil
}

// weight is the content of a folder.
type weight struct {
	files int
	bytes int64
}

// scan is a walk over a folder.
type scan struct {
	*Tree
	left   ignore
	except []string // paths in the tree
	files  int      // limit of files
	names  int      // names in the paths of the entries
	bytes  int64
	within map[string]weight // weight of each top-level entry
	proofs []proof

	met      int           // bytes of the paths of all that was met, and maxBeside for each
	matching time.Duration // time that the patterns of the IgnoreFile have taken
}

// Another user who may write to the folder chooses its depth, its number of entries and the
// patterns of its IgnoreFile. These constants bound the memory and the time of a scan.
const (
	maxMet      = 256 << 20
	maxBeside   = 64 // bytes that are kept of an entry, beside its path
	maxMatching = 10 * time.Second
)

// meet counts what has a name in a folder, staged or not.
func (s *scan) meet(rel, name string) error {
	if s.met += len(rel) + len(name) + maxBeside; s.met > maxMet {
		return fmt.Errorf("%s holds too many files and folders, or too deep ones, with those that are not staged",
			s.Dir)
	}
	return nil
}

// leaves reports whether the IgnoreFile leaves a path out.
func (s *scan) leaves(rel string, dir bool) (bool, error) {
	began := time.Now()
	matched := s.left.matches(rel, dir)
	if s.matching += time.Since(began); s.matching > maxMatching {
		return false, fmt.Errorf("%s in %s: its patterns take more than %v: have fewer or shorter ones", IgnoreFile,
			s.Dir, maxMatching)
	}
	return matched, nil
}

// walk visits what is in a folder, in order. rel is its path in the tree.
func (s *scan) walk(folder *os.File, rel string) error {
	names, err := namesIn(folder, func(name string) error { return s.meet(rel, name) })
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.visit(folder, name, filepath.Join(rel, name)); err != nil {
			return err
		}
	}
	return nil
}

// visit adds what has a name in a folder, and what is below it. rel is its path in the tree.
func (s *scan) visit(folder *os.File, name, rel string) error {
	f, err := openBelow(folder, name, pathOnly)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed since
	}
	if errors.Is(err, unix.EOPNOTSUPP) { // macOS opens no sockets
		s.Warnings = append(s.Warnings, fmt.Sprintf("%s is not staged: it is %s", filepath.Join(s.Dir, rel),
			special(fs.ModeSocket)))
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if left, err := s.leaves(rel, info.IsDir()); err != nil || left || slices.Contains(s.except, rel) {
		return err
	}
	s.proofs = append(s.proofs, proofOf(rel, info))
	e, err := s.entry(rel, f, info)
	if err != nil || e.Kind == "" {
		return err
	}
	s.Entries = append(s.Entries, e)
	if err := s.weigh(e); err != nil || e.Kind != Dir {
		return err
	}
	return s.walk(f, rel)
}

// entry describes a path, opened with pathOnly; its kind is "" if it is not copied.
func (s *scan) entry(rel string, f *os.File, info fs.FileInfo) (Entry, error) {
	e := EntryOf(rel, info)
	switch {
	case e.Kind == "":
		s.Warnings = append(s.Warnings, fmt.Sprintf("%s is not staged: it is %s", filepath.Join(s.Dir, rel),
			special(info.Mode())))
	case e.Kind == Link:
		target, err := readLink(f)
		if err != nil {
			return e, err
		}
		if filepath.IsAbs(target) {
			target = s.relative(rel, target)
		}
		if e.Target = Name(target); !inside(rel, target) {
			return e, &LinkError{Path: filepath.Join(s.Dir, rel), Target: target}
		}
	}
	return e, nil
}

// relative returns the relative form of a link to an absolute path in the folder, which is right in
// a copy, too.
func (s *scan) relative(rel, target string) string {
	for _, top := range []string{s.Dir, s.folder.Name()} {
		if to, err := filepath.Rel(top, target); err == nil && filepath.IsLocal(to) {
			if short, err := filepath.Rel(filepath.Dir(rel), to); err == nil {
				return short
			}
		}
	}
	return target
}

// LinkError reports a link out of the folder.
type LinkError struct{ Path, Target string }

func (e *LinkError) Error() string {
	return fmt.Sprintf("the link %s leads to %s, which is not in the folder", e.Path, e.Target)
}

// weigh checks the limits with a new entry.
func (s *scan) weigh(e Entry) error {
	if len(s.Entries) > MaxEntries {
		return fmt.Errorf("%s holds more than %d files and folders", s.Dir, MaxEntries)
	}
	if s.names += e.Names(); s.names > MaxNames {
		return fmt.Errorf("%s holds too deep folders: the paths in it have more than %d names", s.Dir, MaxNames)
	}
	if e.Kind != File {
		return nil
	}
	s.Files++
	s.Bytes += e.Size
	top, _, below := strings.Cut(string(e.Path), "/")
	if below {
		top += "/"
	}
	w := s.within[top]
	s.within[top] = weight{w.files + 1, w.bytes + e.Size}
	over := &LimitError{Dir: s.Dir}
	by := func(a, b string) int { return cmp.Compare(s.within[a].bytes, s.within[b].bytes) }
	switch {
	case s.Bytes > s.bytes:
		over.Over = "more than " + SizeText(s.bytes)
	case s.Files > s.files:
		over.Over = fmt.Sprintf("more than %d files", s.files)
		by = func(a, b string) int { return cmp.Compare(s.within[a].files, s.within[b].files) }
	default:
		return nil
	}
	for top := range s.within {
		if over.Largest == "" || by(top, over.Largest) > 0 {
			over.Largest = top
		}
	}
	return over
}

// EntryOf describes a path, without the target of a link; its kind is "" for sockets and the like.
func EntryOf(rel string, info fs.FileInfo) Entry {
	e := Entry{Path: Name(rel)}
	switch info.Mode().Type() {
	case 0:
		e.Kind = File
		e.Mode = info.Mode().Perm()
		e.Size = info.Size()
		e.Mtime = info.ModTime().UnixNano()
	case fs.ModeDir:
		e.Kind = Dir
		e.Mode = info.Mode().Perm()
	case fs.ModeSymlink:
		e.Kind = Link
	}
	return e
}

func special(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "neither a file nor a folder"
}

// CopyName returns the name of the folder's copy on hosts, which no other folder has.
func (t *Tree) CopyName(machine string) string {
	sum := sha256.Sum256([]byte(machine + "\x00" + t.Dir))
	base := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, path.Base(t.Dir))
	return strings.TrimLeft(base[:min(len(base), 48)], ".") + "-" + hex.EncodeToString(sum[:8])
}
