// Package must ends tests that cannot go on.
package must

import "testing"

// OK ends the test if err is one.
func OK(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
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
