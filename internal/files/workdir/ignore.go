package workdir

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/gorun/gorun/internal/files/trust"
)

// IgnoreFile is the name of the file at the top of a folder that lists what is not staged.
const IgnoreFile = ".gorunignore"

// pattern is a line of the file.
type pattern struct {
	glob    string
	whole   bool // whether the pattern matches the whole path instead of its last element
	dirOnly bool
}

// ignore lists what is not staged.
type ignore []pattern

const maxIgnore = 64 << 10 // bytes of an IgnoreFile

// readIgnore reads an IgnoreFile, if there is one. Whoever may write to the folder may have made it
// a pipe, or a link to a device without end.
func readIgnore(name string) (ignore, error) {
	text, err := trust.ReadFile(name, maxIgnore)
	if errors.Is(err, fs.ErrNotExist) {
		return parseIgnore("")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", IgnoreFile, errors.Unwrap(err)) // without the path
	}
	return parseIgnore(string(text))
}

// parseIgnore parses patterns, one per line: NAME and *.ext at any depth, /NAME and dir/NAME from
// the top, NAME/ for folders only, # for comments. Errors name the line.
func parseIgnore(text string) (ignore, error) {
	list := ignore{{glob: ".git"}}
	n := 0
	for line := range strings.Lines(text) {
		n++
		p, err := parsePattern(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %q: %w", IgnoreFile, n, strings.TrimSpace(line), err)
		}
		if p.glob != "" {
			list = append(list, p)
		}
	}
	return list, nil
}

func parsePattern(text string) (p pattern, err error) {
	if text == "" || text[0] == '#' {
		return p, nil
	}
	switch {
	case text[0] == '!':
		return p, errors.New("! cannot take back in what is left out")
	case strings.Contains(text, "**"):
		return p, errors.New("** is not supported: NAME alone is found at any depth")
	}
	text, p.dirOnly = strings.CutSuffix(text, "/")
	p.whole = strings.Contains(text, "/")
	p.glob = strings.TrimPrefix(text, "/")
	if _, err := path.Match(p.glob, ""); err != nil || p.glob == "" {
		return p, errors.New("it is not a pattern")
	}
	return p, nil
}

// matches reports whether the path, relative to the folder, is not staged.
func (list ignore) matches(name string, dir bool) bool {
	for _, p := range list {
		subject := path.Base(name)
		if p.whole {
			subject = name
		}
		if matched, _ := path.Match(p.glob, subject); matched && (dir || !p.dirOnly) {
			return true
		}
	}
	return false
}
