package usage

import (
	"cmp"
	_ "embed"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/prose"
)

//go:embed synonyms.txt
var synonyms string

// Nearest returns the candidate that a user who typed word probably meant, or "": word itself, a
// synonym of it, or what is [Similar].
func Nearest(word string, candidates []string) string {
	if slices.Contains(candidates, word) {
		return word
	}
	for line := range strings.Lines(synonyms) {
		name, words, _ := strings.Cut(line, ":")
		if slices.Contains(strings.Fields(words), word) && slices.Contains(candidates, name) {
			return name
		}
	}
	return Similar(word, candidates)
}

// Choose returns a hint about a word that is none of the choices: the nearest, or all.
func Choose(word string, choices []string) string {
	if near := Nearest(word, choices); near != "" {
		return "did you mean " + near + "?"
	}
	return "choose one: " + strings.Join(choices, ", ")
}

// Similar returns the candidate that differs from word in the fewest letters, if these are few. Of
// equal candidates it prefers one that begins with word. If none is near, it returns the shortest
// candidate that begins with word, of which a short word may lack one letter only, or "".
func Similar(word string, candidates []string) string {
	best := ""
	most := mistypes(word)
	bestDistance := most + 1
	for _, c := range candidates {
		if max(len(word)-len(c), len(c)-len(word)) > most {
			continue // one letter for each: a word of a file may be very long
		}
		d := editDistance(word, c)
		if d < bestDistance || d == bestDistance && best != "" && strings.HasPrefix(c, word) {
			best = c
			bestDistance = d
		}
	}
	return cmp.Or(best, shortestWithPrefix(word, candidates))
}

// SimilarFile returns the name in a folder that is [Similar] to name, or "". It reads at
// most 8192 names.
func SimilarFile(folder, name string) string {
	const most = 1 << 13
	return Similar(name, slices.Sorted(trust.Names(folder, most)))
}

// FileHint returns a hint about a file that cannot be opened: the nearest name if the file is not
// there and one is near, otherwise the text of that name.
func FileHint(path, otherwise string) string {
	if _, err := os.Lstat(path); err == nil {
		return otherwise
	}
	folder := filepath.Dir(path)
	if near := SimilarFile(folder, filepath.Base(path)); near != "" {
		return "did you mean " + prose.Quoted(filepath.Join(folder, near)) + "?"
	}
	return otherwise
}

// shortestWithPrefix returns the shortest candidate that begins with word, or "". A short word may
// lack one letter only.
func shortestWithPrefix(word string, candidates []string) (shortest string) {
	for _, c := range candidates {
		long := len(word) > 3 || len(word) > 1 && len(c) == len(word)+1
		if long && strings.HasPrefix(c, word) && (shortest == "" || len(c) < len(shortest)) {
			shortest = c
		}
	}
	return shortest
}

// mistypes bounds the mistakes in a mistyped word. More of them make another word of a short one,
// such as status of stacks.
func mistypes(word string) int {
	switch n := len(word); {
	case n < 3:
		return 0
	case n < 8:
		return 1
	default:
		return min(n/4, 3)
	}
}

// editDistance counts the insertions, deletions, substitutions and swaps of neighbours between a
// and b (optimal string alignment).
func editDistance(a, b string) int {
	var before []int // the row above row
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			cost := row[j]
			if a[i] != b[j] {
				cost++
			}
			next[j+1] = min(cost, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before = row
		row = next
	}
	return row[len(b)]
}
