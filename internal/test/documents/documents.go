// Package documents reads the repository's Markdown files: their commands,
// which tests run, and their text.
package documents

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/must"
)

// Names returns the documents below root, the repository's top, relative to it.
func Names(t *testing.T, root string) (names []string) {
	t.Helper()
	must.OK(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (len(name) > 1 && name[0] == '.' ||
			slices.Contains([]string{"bin", "lib", "dist", "testdata"}, name)):
			return fs.SkipDir
		case filepath.Ext(name) == ".md":
			names = append(names, name)
		}
		return nil
	}))
	return names
}

// Text returns a document of the repository at root.
func Text(t *testing.T, root, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(root, name)))(t)
	return string(text)
}

// Prose returns a document without its fenced blocks.
func Prose(text string) string {
	parts := strings.Split(text, "```")
	var b strings.Builder
	for i := 0; i < len(parts); i += 2 {
		b.WriteString(parts[i] + "\n")
	}
	return b.String()
}

// Command is a command line in a document, and the lines it prints.
type Command struct {
	Line string
	Want []string
}

// Commands returns the commands of a document: lines that begin with "$ " in
// its fenced blocks. A backslash at the end of a line joins the next one.
func Commands(text string) (found []Command) {
	inside := false
	text = strings.ReplaceAll(text, "\\\n", "")
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		command, typed := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			if inside = !inside; inside {
				found = append(found, Command{}) // what precedes the first command of a block is no output
			}
		case inside && typed:
			found = append(found, Command{Line: command})
		case inside:
			last := &found[len(found)-1]
			last.Want = append(last.Want, line)
		}
	}
	return slices.DeleteFunc(found, func(c Command) bool { return c.Line == "" })
}

// Doors is a row of the table of doors in docs/security.md: what processes of gorun listen on and
// keep open.
type Doors struct {
	Names  []string // "agent tcp loopback"; * stands for any characters
	Source string   // the package that opens them
}

// TableOfDoors returns the rows of the table, from the text of docs/security.md.
func TableOfDoors(text string) (rows []Doors) {
	_, section, _ := strings.Cut(text, "\n## Doors\n")
	section, _, _ = strings.Cut(section, "\n## ")
	row := regexp.MustCompile("(?m)^\\| `([^|]+)` \\| ([^ |]+) \\|")
	for _, words := range row.FindAllStringSubmatch(section, -1) {
		rows = append(rows, Doors{Names: strings.Split(words[1], "`, `"), Source: words[2]})
	}
	return rows
}
