// Package golden compares what a test got with a text kept in a file.
package golden

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
)

// File fails the test unless text is what the named file holds. With
// UPDATE=1 in the environment it writes the file first: commit that only when
// the change is understood.
func File(t *testing.T, name, text string) {
	t.Helper()
	update(t, name, text)
	want, err := os.ReadFile(name)
	if err != nil || string(want) != text {
		t.Errorf("%s is not up to date (UPDATE=1 go test -run %s): %v\ngot:\n%s", name, t.Name(), err, Clip(text))
	}
}

// update writes the file if the environment has UPDATE=1.
func update(t *testing.T, name, text string) (updated bool) {
	t.Helper()
	if os.Getenv("UPDATE") != "1" {
		return false
	}
	must.OK(t, os.WriteFile(name, []byte(text), 0o644))
	return true
}

// Cases compares the lines "input => answer" of a file with what answer returns. Lines without =>
// and lines that begin with # stay as they are. A text in double quotes is a Go string. An error is
// answered as "error: text", with "; hint: text" if it has a hint. UPDATE=1 rewrites the answers.
func Cases(t *testing.T, name string, answer func(input string) (string, error)) {
	t.Helper()
	old := must.Get(os.ReadFile(name))(t)
	var b, wrong strings.Builder
	cases := 0
	for line := range strings.Lines(string(old)) {
		input, want, isCase := strings.Cut(strings.TrimSuffix(line, "\n"), " =>")
		if !isCase || line[0] == '#' {
			b.WriteString(line)
			continue
		}
		cases++
		typed := input
		if unquoted, err := strconv.Unquote(input); err == nil && input[0] == '"' {
			typed = unquoted
		}
		got, err := answer(typed)
		if err != nil {
			got = "error: " + err.Error()
			if hint := usage.Hint(err); hint != "" {
				got += "; hint: " + hint
			}
		}
		got = oneLine(got)
		if want = strings.TrimPrefix(want, " "); got != want {
			fmt.Fprintf(&wrong, "%s\n got %s\nwant %s\n", input, got, want)
		}
		b.WriteString(strings.TrimSuffix(input+" => "+got, " ") + "\n")
	}
	check.That(t, cases != 0, "%s has no cases", name)
	if !update(t, name, b.String()) && wrong.Len() > 0 {
		t.Errorf("%s (UPDATE=1 go test -run %s):\n%s", name, t.Name(), Clip(wrong.String()))
	}
}

// oneLine returns text, quoted if a line cannot hold or show it.
func oneLine(text string) string {
	if text != strings.TrimSpace(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return strconv.Quote(text)
	}
	return text
}

// Clip shortens a long text to its beginning and end.
func Clip(s string) string {
	if len(s) > 4000 {
		return s[:2000] + "\n…\n" + s[len(s)-2000:]
	}
	return s
}
