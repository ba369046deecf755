package python

import "testing"

// R10: a fork of a rank, made by os.fork or by multiprocessing, is refused every call with a
// ForkedError; the rank goes on as if there were none.
func TestR10Fork(t *testing.T) {
	needs(t, "numpy")
	program(t, "3", "fork.py")
}
