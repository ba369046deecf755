package linkage

import (
	"fmt"
	"os"
	"strings"
)

// Loaded returns what a running process uses, by the libraries in its memory.
func Loaded(pid int) Use {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return Use{}
	}
	var paths []string
	for line := range strings.Lines(string(text)) {
		if at := strings.IndexByte(line, '/'); at >= 0 {
			if path := strings.TrimSpace(line[at:]); len(paths) == 0 || paths[len(paths)-1] != path {
				paths = append(paths, path)
			}
		}
	}
	return classify(paths)
}
