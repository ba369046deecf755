package linkage

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/files/trust"
)

// Bounds of a search through a command line and its scripts. A command line may have a hundred
// thousand words, and each is looked up in every folder of PATH.
const (
	maxScript  = 64 << 10 // bytes of a script that are read
	maxNamed   = 64       // programs that are looked at
	maxWords   = 512      // words that are looked up
	searchTime = 50 * time.Millisecond
	// Before searchTime ends the search, it looks up this many words and looks at this many
	// programs: a busy host must not hide the program that an ordinary command names.
	leastWords = 64
	leastNamed = 16
)

// FindCommand is [Find] for a command line. If the program at path uses no MPI itself, it looks at
// those that its arguments name, as the arguments of env, numactl and nsys do, and at those that
// are named by a shell's script. What it finds so is a guess. The search is bounded, in words and
// in time.
func FindCommand(ctx context.Context, path string, argv []string, dir string, env map[string]string) (use Use,
	guess bool) {
	if use = Find(ctx, path, dir, env); use.MPI != None || isPython(path) {
		return use, false
	}
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	s := &search{
		dir:  dir,
		env:  env,
		seen: map[string]bool{path: true},
		late: time.Now().Add(searchTime),
	}
	s.words(script(path, false))
	if len(argv) > 1 {
		for _, arg := range argv[1:min(len(argv), maxWords)] {
			if s.full() {
				break
			}
			// The argument of a shell's -c is a script.
			s.words(arg)
			if isShell(path) && !filepath.IsAbs(arg) {
				arg = filepath.Join(dir, arg)
			}
			if isShell(path) {
				s.words(script(arg, true))
			}
		}
	}
	// The loop appends to the list.
	for i := 0; i < len(s.found) && ctx.Err() == nil && (i < leastNamed || !s.isLate()); i++ {
		ask := askJudged
		if trust.Check(s.found[i]) != nil {
			ask = askByName
		}
		if use = find(ctx, s.found[i], start{dir, env, true}, ask); use.MPI != None {
			// The file, which perhaps never runs, may name a folder in which others have a libpmix.
			if use.PMIx != "" && trust.Check(use.PMIx) != nil {
				use.PMIx = ""
			}
			return use, true
		}
		s.words(script(s.found[i], false))
	}
	return Use{}, false
}

// search collects the programs that a text names.
type search struct {
	dir   string
	env   map[string]string
	seen  map[string]bool // words and paths
	found []string        // paths of programs
	count int             // words that were looked up
	late  time.Time
}

// full reports whether the search looks up no more words.
func (s *search) full() bool {
	return len(s.found) >= maxNamed || s.count >= maxWords || s.count >= leastWords && s.isLate()
}

func (s *search) isLate() bool { return time.Now().After(s.late) }

// words adds the programs among the words of a command or a script.
func (s *search) words(text string) {
	for word := range strings.FieldsFuncSeq(text, separates) {
		if s.full() {
			return
		}
		if s.seen[word] {
			continue
		}
		s.count++
		path := s.resolve(word)
		if path != "" && !s.seen[path] {
			s.found = append(s.found, path)
		}
		s.seen[word] = true
		s.seen[path] = true
	}
}

func separates(r rune) bool { return strings.ContainsRune(" \t\r\n;|&()<>\"'`=", r) }

// resolve returns the path of the executable file that a word names, or "".
func (s *search) resolve(word string) string {
	if strings.HasPrefix(word, "-") || strings.HasPrefix(word, "#") {
		return ""
	}
	if strings.Contains(word, "/") {
		if !filepath.IsAbs(word) {
			word = filepath.Join(s.dir, word)
		}
		return executable(word)
	}
	for _, folder := range filepath.SplitList(s.env["PATH"]) {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(s.dir, folder)
		}
		if path := executable(filepath.Join(folder, word)); path != "" {
			return path
		}
	}
	return ""
}

func executable(path string) string {
	if info, err := trust.Stat(path); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return ""
	}
	return path
}

// script returns the beginning of a shell's script without comments, or "". A shell runs also a
// file whose first line does not name one.
func script(path string, byShell bool) string {
	if _, err := trust.Stat(path); err != nil { // an argument may be data of another user's
		return ""
	}
	f, err := trust.OpenRegular(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxScript))
	first, _, _ := bytes.Cut(text, []byte("\n"))
	line, is := strings.CutPrefix(string(first), "#!")
	if is && !slices.ContainsFunc(strings.Fields(line), isShell) || !is && !byShell || bytes.IndexByte(text, 0) >= 0 {
		return ""
	}
	var kept strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func isShell(program string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "ksh", "zsh", "ash"}, filepath.Base(program))
}
