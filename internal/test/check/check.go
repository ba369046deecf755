// Package check fails tests that go on. Each function reports whether what it checks holds.
package check

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// OK fails the test if err is one. The message begins with about.
func OK(tb testing.TB, err error, about ...any) bool {
	tb.Helper()
	if err != nil {
		tb.Errorf("%s%v", subject(about), err)
	}
	return err == nil
}

// Equal fails the test unless got is want. The message begins with about.
func Equal[T comparable](tb testing.TB, got, want T, about ...any) bool {
	tb.Helper()
	if got != want {
		tb.Errorf("%sgot %s, want %s", subject(about), show(got), show(want))
	}
	return got == want
}

// Slice fails the test unless got and want hold the same elements. The message begins with about.
func Slice[S ~[]E, E comparable](tb testing.TB, got, want S, about ...any) bool {
	tb.Helper()
	same := slices.Equal(got, want)
	if !same {
		tb.Errorf("%sgot %s, want %s", subject(about), show(got), show(want))
	}
	return same
}

// Failure is the end of a call that has to fail. The messages of its checks begin with about.
type Failure struct{ err error }

// Error returns the end of a call, whose last result is an error:
// check.Error(os.Open(name)).Is(t, fs.ErrNotExist).
func Error(results ...any) Failure {
	err, _ := results[len(results)-1].(error)
	return Failure{err}
}

// Any fails the test unless there is an error.
func (f Failure) Any(tb testing.TB, about ...any) bool {
	tb.Helper()
	return f.check(tb, f.err != nil, "an error", about)
}

// Is fails the test unless the error is target, as [errors.Is] sees it.
func (f Failure) Is(tb testing.TB, target error, about ...any) bool {
	tb.Helper()
	return f.check(tb, errors.Is(f.err, target), target, about)
}

// As fails the test unless [errors.As] finds the error that target points to.
func (f Failure) As(tb testing.TB, target any, about ...any) bool {
	tb.Helper()
	return f.check(tb, errors.As(f.err, target), fmt.Sprintf("%T", target), about)
}

// Says fails the test unless there is an error that contains text.
func (f Failure) Says(tb testing.TB, text string, about ...any) bool {
	tb.Helper()
	return f.check(tb, f.err != nil && strings.Contains(f.err.Error(), text), text, about)
}

func (f Failure) check(tb testing.TB, holds bool, want any, about []any) bool {
	tb.Helper()
	if !holds {
		tb.Errorf("%sthe error is %v, want %v", subject(about), f.err, want)
	}
	return holds
}

// That fails the test with the message unless holds.
func That(tb testing.TB, holds bool, format string, args ...any) bool {
	tb.Helper()
	if !holds {
		tb.Errorf(format, args...)
	}
	return holds
}

// subject returns the words that a message begins with.
func subject(about []any) string {
	if len(about) == 0 {
		return ""
	}
	for i, word := range about {
		if text, is := word.([]byte); is {
			about[i] = string(text)
		}
	}
	return strings.TrimSuffix(fmt.Sprintln(about...), "\n") + ": "
}

// show returns a value as messages name it: a text in quotes, or between lines if it has several.
func show(value any) string {
	text, is := value.(string)
	switch {
	case !is:
		return fmt.Sprintf("%+v", value)
	case strings.Contains(text, "\n"):
		return "\n" + text + "\n"
	}
	return fmt.Sprintf("%q", text)
}
