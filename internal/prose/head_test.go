package prose

import (
	"bytes"
	"io"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestHeadKeepsTheBeginning(t *testing.T) {
	full := 0
	h := &Head{
		Limit: 5,
		Full:  func() { full++ },
	}
	for i, text := range []string{"abc", "de", "", "fg", "h"} {
		n, err := io.Copy(h, bytes.NewBufferString(text))
		check.That(t, n == int64(len(text)) && err == nil, "wrote %d bytes of %q: %v", n, text, err)
		check.Equal(t, full, max(i-2, 0), "calls of Full")
	}
	check.Equal(t, string(h.Bytes()), "abcde")
	unwatched := &Head{Limit: 1}
	_, err := unwatched.Write([]byte("ab"))
	check.That(t, err == nil && string(unwatched.Bytes()) == "a", "%q, %v", unwatched.Bytes(), err)
}
