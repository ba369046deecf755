package topology

import (
	"fmt"
	"io/fs"
	"strings"
)

// readCaches finds the caches of levels 2 and 3 that threads share. It reads a file per thread and
// level.
func (m Machine) readCaches(sys fs.FS) {
	socket := map[int]int{} // its lowest thread
	for _, c := range m {
		if first, known := socket[c.Socket]; !known || c.ID < first {
			socket[c.Socket] = c.ID
		}
	}
	index := cacheIndex(sys, m[0].ID)
	for i, c := range m {
		m[i].L2 = firstOfCache(sys, c.ID, index[2], c.Core)
		m[i].L3 = firstOfCache(sys, c.ID, index[3], socket[c.Socket])
	}
}

// cacheIndex returns the kernel's index of the cache of each level, as text, of which no level but
// the first has two.
func cacheIndex(sys fs.FS, id int) (index [4]string) {
	files, _ := fs.Glob(sys, fmt.Sprintf("devices/system/cpu/cpu%d/cache/index[0-9]*/level", id))
	for _, file := range files {
		if level := readNumber(sys, file); level > 0 && level < len(index) {
			index[level] = strings.TrimSuffix(file[strings.LastIndex(file, "index"):], "/level")
		}
	}
	return index
}

// firstOfCache returns the lowest thread that shares a cache with a thread, or otherwise if that is
// not known.
func firstOfCache(sys fs.FS, id int, index string, otherwise int) int {
	if index == "" {
		return otherwise
	}
	text, err := fs.ReadFile(sys, fmt.Sprintf("devices/system/cpu/cpu%d/cache/%s/shared_cpu_list", id, index))
	if err != nil {
		return otherwise
	}
	if shared, err := ParseSet(string(text)); err == nil && len(shared) > 0 {
		return shared[0]
	}
	return otherwise
}
