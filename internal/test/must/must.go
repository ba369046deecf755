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
