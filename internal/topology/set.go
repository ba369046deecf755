package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxCPU bounds the kernel's numbers, far above the 8192 that Linux can have.
const maxCPU = 1 << 16

// Set is numbers of hardware threads, ascending.
type Set []int

// ParseSet reads a list as the kernel writes it: 0-3,8. An empty one is no error.
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

// Has reports whether a number is in s.
func (s Set) Has(n int) bool {
	_, found := slices.BinarySearch(s, n)
	return found
}

// String writes s as the kernel does: 0-3,8.
func (s Set) String() string {
	var spans []string
	for i := 0; i < len(s); {
		first, last := s[i], s[i]
		for i++; i < len(s) && s[i] == last+1; i++ {
			last++
		}
		if first == last {
			spans = append(spans, strconv.Itoa(first))
		} else {
			spans = append(spans, fmt.Sprintf("%d-%d", first, last))
		}
	}
	return strings.Join(spans, ",")
}

// named is s behind what its numbers count: "core 1", "cores 1-2".
func (s Set) named(noun string) string {
	if len(s) != 1 {
		noun += "s"
	}
	return noun + " " + s.String()
}
