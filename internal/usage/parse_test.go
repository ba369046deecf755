package usage

import (
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestSplitShell(t *testing.T) {
	for line, want := range map[string][]string{
		"":                       nil,
		"  ":                     nil,
		"a  b\tc":                {"a", "b", "c"},
		`a 'b c' "d e"f ''`:      {"a", "b c", "d ef", ""},
		`a\ b "c\"d" 'e\f' \`:    {"a b", `c"d`, `e\f`, `\`},
		"a \\\n b\\\nc \"\\\n\"": {"a", "bc", ""},
		`-x A="$HOME *"`:         {"-x", "A=$HOME *"},
	} {
		got, err := SplitShell(line)
		check.That(t, err == nil && slices.Equal(got, want), "%q: %q, %v; want %q", line, got, err, want)
	}
	for _, line := range []string{"'", `a "b`, `"\"`} {
		got, err := SplitShell(line)
		check.That(t, err != nil, "%q: %q", line, got)
	}
}

// A word of a command is known with its place in the line, and as what the shell may change.
func TestSplitCommands(t *testing.T) {
	for line, want := range map[string][]string{
		"":                        nil,
		`a&b "c;d"`:               {"a", "&", "b", `"c;d"=c;d`},
		`'a b'c \; ;`:             {"'a b'c=a bc", `\;=;?`, ";"},
		`$A a* "*" '$A' "$A" ~/b`: {"$A=$A?", "a*=a*?", `"*"=*`, "'$A'=$A", `"$A"=$A?`, "~/b=~/b?"},
	} {
		words, err := SplitCommands(line, ";&")
		must.OK(t, err)
		var got []string
		for _, w := range words {
			text := line[w.At:w.End]
			if text != w.Text || !w.Plain && !strings.Contains(";&", text) {
				text += "=" + w.Text
			}
			if !w.Plain && !strings.Contains(";&", line[w.At:w.End]) {
				text += "?"
			}
			got = append(got, text)
		}
		check.That(t, slices.Equal(got, want), "%q: %q, want %q", line, got, want)
	}
	check.Error(SplitCommands("'", ";&")).Any(t, "a quote is not closed")
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
