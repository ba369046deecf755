// Package usage has errors about user input, and parsers for input that many commands share:
// command lines and sets of ranks.
package usage

import (
	"errors"
	"fmt"

	"github.com/gorun/gorun/internal/prose"
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

// Hint returns what the method Hint of an error of any type says can be done about it, or "".
func Hint(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// Clipped shortens a long text for an error message.
func Clipped(s string) string { return prose.Cut(s, 60) }
