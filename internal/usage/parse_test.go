package usage

import (
	"slices"
	"strings"
	"testing"
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
		if got, err := SplitShell(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", line, got, err, want)
		}
	}
	for _, line := range []string{"'", `a "b`, `"\"`} {
		if got, err := SplitShell(line); err == nil {
			t.Errorf("%q: %q", line, got)
		}
	}
}

func TestParseRanks(t *testing.T) {
	for text, want := range map[string][][2]int{"3": {{3, 3}}, "0, 8-11": {{0, 0}, {8, 11}}, "2-2": {{2, 2}}} {
		if got, err := ParseRanks(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "a", "3-1", "-1", "1,", "1-", "9999999"} {
		if got, err := ParseRanks(text); err == nil || !strings.Contains(err.Error(), "0,8-11") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
