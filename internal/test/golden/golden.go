// Package golden compares what a test got with a text kept in a file.
package golden

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/cli/usage"
)

// File fails the test unless text is what the named file holds. With
// UPDATE=1 in the environment it writes the file first: commit that only when
// the change is understood.
func File(t *testing.T, name, text string) {
	t.Helper()
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil || string(want) != text {
		t.Errorf("%s is not up to date (UPDATE=1 go test -run %s): %v\ngot:\n%s", name, t.Name(), err, Clip(text))
	}
}

// Transcript answers every line "$ command" of a file, of which there must be
// at least least, and compares the answers with those that the file holds.
func Transcript(t *testing.T, name string, least int, answer func(argv []string) string) {
	t.Helper()
	old, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	lines := 0
	for line := range strings.Lines(string(old)) {
		typed, found := strings.CutPrefix(line, "$ ")
		if !found {
			continue
		}
		lines++
		argv, err := usage.SplitShell(typed)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s%s\n", line, answer(argv))
	}
	if lines < least {
		t.Errorf("%d command lines", lines)
	}
	File(t, name, b.String())
}

// CommandLines returns the command lines of a file, one a line; lines that are
// empty or begin with # are skipped.
func CommandLines(t *testing.T, name string) (lines [][]string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		argv, err := usage.SplitShell(line)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, argv)
	}
	return lines
}

// Clip shortens a long text to its beginning and end.
func Clip(s string) string {
	if len(s) > 4000 {
		return s[:2000] + "\n…\n" + s[len(s)-2000:]
	}
	return s
}
