package command

import (
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/lab"
)

// Output is what a process has written so far.
type Output = lab.Output

// Lines returns the lines of stdout.
func (r *Run) Lines() []string {
	return strings.FieldsFunc(r.Out.String(), func(c rune) bool { return c == '\n' })
}

// WantLines compares the lines of stdout, in any order, with want.
func (r *Run) WantLines(want ...string) {
	r.t.Helper()
	got := r.Lines()
	slices.Sort(got)
	check.That(r.t, slices.Equal(got, want), "got %q, want %q", got, want)
}

// wantWords checks that stderr holds every one of words.
func (r *Run) wantWords(words []string) {
	r.t.Helper()
	for _, w := range words {
		check.That(r.t, strings.Contains(r.Err.String(), w), "stderr lacks %q:\n%s", w, golden.Clip(r.Err.String()))
	}
}
