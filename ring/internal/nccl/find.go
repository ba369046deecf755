package nccl

import (
	"path/filepath"
	"slices"
	"strings"
)

const soname = "libnccl.so.2"

// candidate is a place where NCCL may be.
type candidate struct {
	path   string
	loaded bool // use it only if the process has loaded it
	must   bool // if it is missing, the search ends with an error
}

// candidates returns the paths to try for NCCL, in order: the user's choice; the library that the
// process has loaded (two copies would conflict); the wheel beside PyTorch or CUDA if those are
// loaded (maps is /proc/self/maps); the wheel of a Python; and the system's libraries. Glob is
// [filepath.Glob].
func candidates(lookup func(string) (string, bool), maps string, glob func(string) ([]string, error)) []candidate {
	if path, _ := lookup("RING_NCCL_LIB"); path != "" {
		return []candidate{{path: path, must: true}}
	}
	found := []candidate{{path: soname, loaded: true}}
	add := func(packages string) {
		paths, err := glob(filepath.Join(packages, "nvidia/nccl/lib", soname))
		if err != nil {
			return // a folder's name is no valid pattern
		}
		for _, path := range paths {
			if c := (candidate{path: path}); !slices.Contains(found, c) {
				found = append(found, c)
			}
		}
	}
	for _, packages := range mappedPackages(maps) {
		add(packages)
	}
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if prefix, _ := lookup(name); prefix != "" {
			add(filepath.Join(prefix, "lib/python3*/site-packages"))
		}
	}
	if home, _ := lookup("HOME"); home != "" {
		add(filepath.Join(home, ".local/lib/python3*/site-packages"))
	}
	add("/usr/local/lib/python3*/*-packages")
	add("/usr/lib/python3*/*-packages")
	return append(found, candidate{path: soname})
}

// mappedPackages returns the folders of Python packages out of which the process has files mapped.
func mappedPackages(maps string) []string {
	var folders []string
	for line := range strings.Lines(maps) {
		_, path, ok := strings.Cut(line, "/")
		if !ok {
			continue
		}
		path = "/" + strings.TrimSuffix(path, "\n")
		for _, name := range []string{"/site-packages/", "/dist-packages/"} {
			if before, _, ok := strings.Cut(path, name); ok {
				folder := before + strings.TrimSuffix(name, "/")
				if !slices.Contains(folders, folder) {
					folders = append(folders, folder)
				}
			}
		}
	}
	return folders
}
