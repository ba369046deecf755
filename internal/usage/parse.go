package usage

import (
	"errors"
	"strconv"
	"strings"
)

// Word is a word of a shell's line, or an operator between two words.
type Word struct {
	Text    string // without quotes
	At, End int    // where it is in the line, with its quotes
	Plain   bool   // the shell makes nothing else of the text
}

// SplitShell splits a line into words like a shell, without operators and expansion.
func SplitShell(line string) ([]string, error) { return texts(split(line, "", false)) }

// SplitScript splits a line like SplitShell, and drops a comment, which begins with a word that
// begins with #.
func SplitScript(line string) ([]string, error) { return texts(split(line, "", true)) }

// SplitCommands splits a line into words like SplitShell. Each of the characters in operators that
// is not quoted is a word, too.
func SplitCommands(line, operators string) ([]Word, error) { return split(line, operators, false) }

func texts(words []Word, err error) (list []string, _ error) {
	for _, w := range words {
		list = append(list, w.Text)
	}
	return list, err
}

func split(line, operators string, comments bool) (words []Word, err error) {
	const none = -1
	at := none // where the word begins
	var text strings.Builder
	plain := true
	quote := byte(0)
	end := func(i int) {
		if at != none {
			words = append(words, Word{text.String(), at, i, plain})
		}
		at = none
		text.Reset()
		plain = true
	}
	for i := 0; i < len(line); i++ {
		c := line[i]
		operator := strings.IndexByte(operators, c) >= 0
		switch {
		case quote != '\'' && strings.HasPrefix(line[i:], "\\\n"): // the line goes on
			i++
			continue
		case quote == 0 && (operator || strings.IndexByte(" \t\n", c) >= 0):
			end(i)
			if operator {
				words = append(words, Word{Text: line[i : i+1], At: i, End: i + 1})
			}
			continue
		case comments && c == '#' && at == none:
			return words, nil
		case at == none:
			at = i
		}
		switch {
		case quote != 0 && c == quote:
			quote = 0
			continue
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
			continue
		case quote == '\'':
		case c == '\\':
			plain = false
			i = min(i+1, len(line)-1)
		case strings.IndexByte("$`", c) >= 0 || quote == 0 && strings.IndexByte("*?[{~=#!", c) >= 0:
			plain = false
		}
		text.WriteByte(line[i])
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	end(len(line))
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
