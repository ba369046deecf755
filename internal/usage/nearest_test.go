package usage

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
)

// A word of a file, which may be very long, takes little time to compare with thousands of others.
func TestNearestOfALongWord(t *testing.T) {
	var names []string
	for n := range 1 << 13 {
		names = append(names, fmt.Sprintf("file-number-%d.txt", n))
	}
	begun := time.Now()
	check.Equal(t, Similar(strings.Repeat("a", 1<<20), names), "", "the nearest of a long word")
	took := time.Since(begun)
	check.That(t, took < 10*time.Second, "it takes %v", took)
	for word, want := range map[string]string{
		"file-number-8000.tx":  "file-number-8000.txt",
		"fiel-nmuber-8000.txt": "file-number-8000.txt",
		"file-80001.txt":       "",
	} {
		check.Equal(t, Similar(word, names), want, word)
	}
}
