package python

import (
	"cmp"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
)

// 20000 calls of a kind, or as many as LEAKS says, leave neither memory nor objects behind, be they
// waited for, dropped or failed.
func TestTorchLeavesNothingBehind(t *testing.T) {
	needs(t, "torch")
	limit := 8 * time.Minute // it takes half of one
	if os.Getenv("LEAKS") != "" {
		limit = 2 * time.Hour
	}
	out, code := jobWithin(t, limit, nil, "-np", "2", interpreter, script(t, "leaks.py"),
		cmp.Or(os.Getenv("LEAKS"), "20000"))
	check.That(t, code == 0 && strings.Count(out, "all right") == 2, "exit code %d:\n%s", code, out)
	t.Log(out)
}
