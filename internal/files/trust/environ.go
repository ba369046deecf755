package trust

import (
	"path/filepath"
	"slices"
	"strings"
)

// Environ returns variables for a program that starts in /, without the relative paths by which the
// dynamic linker and Python would find files below it, where others write to folders such as /tmp.
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
