package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/prose"
)

// maxCPU bounds CPU numbers; Linux supports at most 8192.
const maxCPU = 1 << 16

// Set is a set of hardware thread numbers in ascending order.
type Set []int

// ParseSet parses a list in the kernel's format, such as 0-3,8. An empty list is valid.
func ParseSet(text string) (Set, error) {
	var set Set
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		if part == "" {
			continue
		}
		first, last, span := strings.Cut(part, "-")
		if !span {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, lastErr := strconv.Atoi(last)
		if err != nil || lastErr != nil || from < 0 || to < from || to >= maxCPU {
			return nil, fmt.Errorf("%q is no list such as 0-3,8", text)
		}
		for n := from; n <= to; n++ {
			set = append(set, n)
		}
	}
	return set.sorted(), nil
}

func (s Set) sorted() Set {
	slices.Sort(s)
	return slices.Compact(s)
}

// Has reports whether s contains a number.
func (s Set) Has(n int) bool {
	_, found := slices.BinarySearch(s, n)
	return found
}

// String returns s in the kernel's format, such as 0-3,8.
func (s Set) String() string { return prose.Ranges(s, 0) }

// named returns s after the noun it counts: "core 1", "cores 1-2".
func (s Set) named(noun string) string {
	if len(s) != 1 {
		noun += "s"
	}
	return noun + " " + s.String()
}
