// Package files makes files for tests.
package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Make makes files below a new directory, which it returns. A text that begins with + is
// executable.
func Make(t testing.TB, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		text, executable := strings.CutPrefix(text, "+")
		if executable {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
