// Package must ends tests that cannot go on.
package must

import (
	"os/exec"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
)

// HaveTime skips a test that takes seconds in the fast tier: go test -short, as in make check.
func HaveTime(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("takes seconds")
	}
}

// OK ends the test if err is one. The message begins with about.
func OK(tb testing.TB, err error, about ...any) {
	tb.Helper()
	if !check.OK(tb, err, about...) {
		tb.FailNow()
	}
}

// Equal ends the test unless got is want. The message begins with about.
func Equal[T comparable](tb testing.TB, got, want T, about ...any) {
	tb.Helper()
	if !check.Equal(tb, got, want, about...) {
		tb.FailNow()
	}
}

// That ends the test with the message unless holds.
func That(tb testing.TB, holds bool, format string, args ...any) {
	tb.Helper()
	if !check.That(tb, holds, format, args...) {
		tb.FailNow()
	}
}

// Get returns a function that returns value, or ends the test if err is one:
// dir := must.Get(os.Getwd())(t).
func Get[T any](value T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		OK(tb, err)
		return value
	}
}

// GetTwo is Get for two values.
func GetTwo[T, U any](first T, second U, err error) func(testing.TB) (T, U) {
	return func(tb testing.TB) (T, U) {
		tb.Helper()
		OK(tb, err)
		return first, second
	}
}

// Until polls for something that must become true, on a machine that may be busy.
func Until(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	const limit = 2 * time.Minute
	for end := time.Now().Add(limit); !is(); time.Sleep(2 * time.Millisecond) {
		That(tb, time.Now().Before(end), "waited %v for %s", limit, what)
	}
}

// Run runs the command and returns what it printed, or ends the test if it fails.
func Run(tb testing.TB, cmd *exec.Cmd) []byte {
	tb.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		tb.Fatalf("%v: %v: %s", cmd, err, out)
	}
	return out
}
