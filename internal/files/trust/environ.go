package trust

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// StartDir returns the folder for a program that shall find nothing by relative paths, whatever
// variable has them: they lead from / to folders in which others write, such as /tmp, but nowhere
// from a folder of the kernel's about the program itself. Without such folders it is /.
func StartDir() string {
	const own = "/proc/self/ns"
	if info, err := os.Stat(own); err != nil || !info.IsDir() {
		return "/"
	}
	return own
}

// Environ returns variables for a program that starts in / or StartDir, without the relative paths
// by which the dynamic linker and Python would find files below it.
func Environ(env []string) (all []string) {
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if kept := withoutRelative(name, value); kept != value {
			kv = name + "=" + kept
		}
		all = append(all, kv)
	}
	return all
}

// withoutRelative returns the value of a variable without its relative paths.
func withoutRelative(name, value string) string {
	separators := ":"
	relative := func(path string) bool { return !filepath.IsAbs(path) }
	switch name {
	case "LD_PRELOAD", "LD_AUDIT":
		separators = ": "
		relative = func(path string) bool { // a name is looked for where libraries are
			return !filepath.IsAbs(path) && strings.Contains(path, "/")
		}
	case "LD_LIBRARY_PATH":
		separators = ":;"
	case "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX":
	default:
		return value
	}
	paths := strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune(separators, c) })
	if !slices.ContainsFunc(paths, relative) {
		return value
	}
	return strings.Join(slices.DeleteFunc(paths, relative), ":")
}
