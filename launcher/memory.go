package launcher

import (
	"fmt"
	"strings"
)

// shortOf returns which memory ran out for a rank, such as ": the host ran out of memory", or "".
func shortOf(e Exit) string {
	switch e.OutOfMemory {
	case MemoryOfGroup:
		return fmt.Sprintf(": its cgroup's memory limit of %s was reached", Size(e.MemoryLimit))
	case MemoryOfHost:
		return ": the host ran out of memory"
	case MemoryLikely:
		return ": the host ran out of memory, it seems"
	}
	return ""
}

// Size writes a number of bytes with about three digits: "64 MiB", "1.53 GiB".
func Size(bytes int64) string {
	n, unit := float64(bytes)/(1<<20), "MiB"
	if bytes >= 1<<30 {
		n, unit = float64(bytes)/(1<<30), "GiB"
	}
	digits := 0
	switch {
	case n < 10:
		digits = 2
	case n < 100:
		digits = 1
	}
	text := fmt.Sprintf("%.*f", digits, n)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + " " + unit
}
