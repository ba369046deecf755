// Package check fails tests that go on. Each function reports whether what it checks holds.
package check

import (
	"fmt"
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
