package command

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/golden"
)

// Output is a buffer that may be read while a process writes it.
type Output struct {
	mu   sync.Mutex
	data []byte
}

// Write appends p.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.data = append(o.data, p...)
	return len(p), nil
}

// Bytes returns a copy of what has been written.
func (o *Output) Bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.data)
}

// String returns what has been written.
func (o *Output) String() string { return string(o.Bytes()) }

// Len returns how many bytes have been written.
func (o *Output) Len() int { return len(o.Bytes()) }

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
