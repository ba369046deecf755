package dialect

import (
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/usage"
)

func TestProgramLines(t *testing.T) {
	text := "# programs\n\n-np 1 \"a b\" 'c # d' e\\ f # the first\r\n  -np 2 \\\n b#c \\\r\n d\n\t#\n"
	lines, err := programLines(text)
	want := [][]string{{"-np", "1", "a b", "c # d", "e f"}, {"-np", "2", "b#c", "d"}}
	check.That(t, err == nil && slices.EqualFunc(lines, want, slices.Equal), "%q, %v", lines, err)
	for text, want := range map[string]string{"": "names no program", "# a\n": "names no program",
		"a 'b\n": "a quote is not closed"} {
		_, err := programLines(text)
		check.That(t, usage.Is(err) && strings.Contains(err.Error(), want), "%q: %v", text, err)
	}
}
