package prose

import (
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestTailKeepsTheEnd(t *testing.T) {
	tail := NewTail(4)
	for _, step := range []struct {
		write, end string
		left       int
	}{{"", "", 0}, {"abc", "abc", 0}, {"de", "bcde", 1}, {"0123456789", "6789", 11}} {
		n, err := tail.Write([]byte(step.write))
		check.That(t, n == len(step.write) && err == nil, "%q: %d, %v", step.write, n, err)
		if end, left := tail.End(); end != step.end || left != step.left {
			t.Errorf("%q: %q after %d bytes, want %q after %d", step.write, end, left, step.end, step.left)
		}
	}
}
