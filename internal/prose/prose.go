// Package prose puts counts, lists of names, text from other machines and commands into sentences
// for the user.
package prose

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Count is a number and its noun: "1 rank", "2 ranks".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// most is the number of names that a list shows.
const most = 6

// And lists the names of hosts as "a, b and c"; beyond six names it counts the rest.
func And(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " and " + Count(len(names)-most, "more host")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// List lists the names of hosts as "a, b, c"; beyond six names it counts the rest.
func List(names []string) string {
	if len(names) > most {
		return And(names)
	}
	return strings.Join(names, ", ")
}

// Cut returns text, or its beginning and "..." if it has more than most characters.
func Cut(text string, most int) string {
	letters := []rune(text)
	if len(letters) <= most {
		return text
	}
	return string(letters[:max(0, most-3)]) + "..."
}

// Unique returns words without repetitions, in order.
func Unique(words []string) (out []string) {
	for _, w := range words {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// Ranges formats ascending numbers: 1-3,5. Beyond most parts it ends with an ellipsis; 0: there is
// no bound.
func Ranges(numbers []int, most int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		if most > 0 && len(parts) == most {
			parts = append(parts, "...")
			break
		}
		end := i
		for end+1 < len(numbers) && numbers[end+1] == numbers[end]+1 {
			end++
		}
		part := strconv.Itoa(numbers[i])
		if end > i {
			part += "-" + strconv.Itoa(numbers[end])
		}
		parts = append(parts, part)
		i = end + 1
	}
	return strings.Join(parts, ",")
}

// Size writes a number of bytes with about three digits: "64 MiB", "1.53 GiB".
func Size(bytes int64) string {
	n := float64(bytes) / (1 << 20)
	unit := "MiB"
	if bytes >= 1<<30 {
		n = float64(bytes) / (1 << 30)
		unit = "GiB"
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
