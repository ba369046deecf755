// Package usage has errors about user input, and parsers for input that many commands share:
// command lines and sets of ranks.
package usage

import (
	"errors"
	"fmt"
)

// Error is a mistake in user input with a hint. gorun exits with 2 for it.
type Error struct {
	err  error
	hint string
}

func (e *Error) Error() string { return e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

// Hint is what to type instead, or "".
func (e *Error) Hint() string { return e.hint }

// Errorf returns an *Error with a hint: what to type next, or "".
func Errorf(hint, format string, args ...any) error {
	return &Error{fmt.Errorf(format, args...), hint}
}

// Is reports whether err is or wraps an *Error.
func Is(err error) bool {
	var mistake *Error
	return errors.As(err, &mistake)
}

// Hint is what an error says can be done about it, or "". Errors of any type may say so.
func Hint(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// Clipped shortens a long text for an error message.
func Clipped(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}

// Nearest returns the candidate most similar to word, or "".
func Nearest(word string, candidates []string) string {
	best := ""
	bestDistance := 1 + len(word)/3
	for _, c := range candidates {
		if d := editDistance(word, c); d <= bestDistance && (best == "" || d < bestDistance) {
			best = c
			bestDistance = d
		}
	}
	return best
}

// editDistance counts the insertions, deletions and substitutions between a and b (Wagner and
// Fischer, 1974).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
