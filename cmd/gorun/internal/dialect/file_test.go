package dialect

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
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

func TestFilesQuoteNoValues(t *testing.T) {
	for text, want := range map[string]string{
		"-np 1 -x TOKEN='hunter2 ./a\n": `"-np 1 -x TOKEN": a quote is not closed`,
		"TOKEN = \"hunter2\n":           `"TOKEN ": a quote is not closed`,
	} {
		name := filepath.Join(t.TempDir(), "file")
		must.OK(t, os.WriteFile(name, []byte(text), 0o600))
		_, asPrograms := programLines(text)
		_, _, asTuning := tuning{"--tune", name}.read(pflag.NewFlagSet("", pflag.ContinueOnError))
		for _, err := range []error{asPrograms, asTuning} {
			check.That(t, usage.Is(err) && strings.HasPrefix(err.Error(), want) &&
				!strings.Contains(err.Error(), "hunter2"), "%q: %v", text, err)
		}
	}
}
