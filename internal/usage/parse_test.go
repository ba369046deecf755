package usage

import (
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestSplitShell(t *testing.T) {
	for line, want := range map[string][]string{
		"":                    nil,
		"  ":                  nil,
		"a  b\tc":             {"a", "b", "c"},
		`a 'b c' "d e"f ''`:   {"a", "b c", "d ef", ""},
		`a\ b "c\"d" 'e\f' \`: {"a b", `c"d`, `e\f`, `\`},
		`-x A="$HOME *"`:      {"-x", "A=$HOME *"},
	} {
		got, err := SplitShell(line)
		check.That(t, err == nil && slices.Equal(got, want), "%q: %q, %v; want %q", line, got, err, want)
	}
	for _, line := range []string{"'", `a "b`, `"\"`} {
		got, err := SplitShell(line)
		check.That(t, err != nil, "%q: %q", line, got)
	}
}

func TestParseRanks(t *testing.T) {
	for text, want := range map[string][][2]int{"3": {{3, 3}}, "0, 8-11": {{0, 0}, {8, 11}}, "2-2": {{2, 2}}} {
		got, err := ParseRanks(text)
		check.That(t, err == nil && slices.Equal(got, want), "%q: %v, %v", text, got, err)
	}
	for _, text := range []string{"", "a", "3-1", "-1", "1,", "1-", "9999999"} {
		got, err := ParseRanks(text)
		check.That(t, err != nil && strings.Contains(err.Error(), "0,8-11"), "%q: %v, %v", text, got, err)
	}
}
