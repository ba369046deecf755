package usage

import (
	"errors"
	"strconv"
	"strings"
)

// SplitShell splits a line into words like a shell, without expansion.
func SplitShell(line string) (words []string, err error) {
	var word strings.Builder
	inWord := false
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\' && quote != '\'' && i+1 < len(line):
			i++
			word.WriteByte(line[i])
			inWord = true
		case quote != 0:
			word.WriteByte(c)
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case strings.IndexByte(" \t\n", c) >= 0:
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteByte(c)
			inWord = true
		}
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
			return nil, errors.New("want ranks such as 0,8-11")
		}
		set = append(set, [2]int{int(from), int(to)})
	}
	return set, nil
}
