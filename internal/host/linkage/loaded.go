package linkage

import "strings"

// Loaded returns what a running process uses, by the libraries in its memory. maps is its
// /proc/PID/maps.
func Loaded(maps string) Use {
	var paths []string
	for line := range strings.Lines(maps) {
		if at := strings.IndexByte(line, '/'); at >= 0 {
			if path := strings.TrimSpace(line[at:]); len(paths) == 0 || paths[len(paths)-1] != path {
				paths = append(paths, path)
			}
		}
	}
	return classify(paths)
}
