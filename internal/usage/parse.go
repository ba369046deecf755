package usage

import (
	"errors"
	"strconv"
	"strings"
)

// SplitShell splits a line into words like a shell, without expansion.
func SplitShell(line string) ([]string, error) { return splitShell(line, false) }

// SplitScript splits a line like SplitShell, and drops a comment, which begins with a word that
// begins with #.
func SplitScript(line string) ([]string, error) { return splitShell(line, true) }

func splitShell(line string, comments bool) (words []string, err error) {
	var word strings.Builder
	inWord := false
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
			continue
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
			inWord = true
			continue
		case quote == 0 && strings.IndexByte(" \t\n", c) >= 0:
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
			continue
		case comments && c == '#' && !inWord:
			return words, nil
		case c == '\\' && quote != '\'' && i+1 < len(line):
			i++
		}
		word.WriteByte(line[i])
		inWord = true
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// ParseRanks parses a set of ranks such as 0,8-11 into pairs of first and last rank.
func ParseRanks(text string) (set [][2]int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, span := strings.Cut(strings.TrimSpace(part), "-")
		if !span {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 20)
		to, lastErr := strconv.ParseUint(last, 10, 20)
		if err != nil || lastErr != nil || to < from {
			return nil, errors.New("expected ranks such as 0,8-11")
		}
		set = append(set, [2]int{int(from), int(to)})
	}
	return set, nil
}
