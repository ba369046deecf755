package lab

import (
	"os"
	"path/filepath"
)

// Kept returns a file or folder that a script of .ci has made and keeps outside the tree: the last
// one whose path in its cache matches a pattern.
func Kept(pattern string) (name string, found bool) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", false
	}
	all, _ := filepath.Glob(filepath.Join(cache, "gorun-ci", pattern))
	if len(all) == 0 {
		return "", false
	}
	return all[len(all)-1], true
}
