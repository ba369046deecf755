// Package lookup finds the programs that an agent starts, and explains why one cannot be started
// there.
package lookup

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/gorun/gorun/internal/net/wire"
)

// Find finds name as a shell in dir would, and checks that it can be executed, so that a mistake is
// reported once a host, not once a rank.
func Find(name, dir, path string) (string, error) {
	if strings.Contains(name, "/") {
		full := name
		if !filepath.IsAbs(full) {
			full = filepath.Join(dir, name)
		}
		return full, check(full, dir)
	}
	if path == "" {
		path = "/usr/local/bin:/usr/bin:/bin"
	}
	var denied string
	for _, d := range filepath.SplitList(path) {
		if d == "" {
			d = "."
		}
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		full := filepath.Join(d, name)
		info, err := os.Stat(full)
		if err != nil || info.IsDir() {
			continue
		}
		if executable(full) {
			return full, check(full, dir)
		}
		denied = full
	}
	if denied != "" {
		return "", check(denied, dir)
	}
	hint := "give its path, or add its folder to PATH, which ranks get from here: " + path
	if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() {
		hint = "there is one in the working directory: write ./" + name
	}
	return "", wire.Refusef(wire.CodeNotFound, hint, "the program %q was not found in PATH", name)
}
