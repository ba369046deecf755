package main

import (
	"encoding/csv"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/cli/settings"
	"github.com/gorun/gorun/internal/test/golden"
)

// TestFlagsOfDialect keeps the flags in the tests of package dialect up to date.
func TestFlagsOfDialect(t *testing.T) {
	var b strings.Builder
	table := csv.NewWriter(&b)
	rows := [][]string{{"flag", "letter", "type", "value when alone"}}
	newRoot(nil).Flags().VisitAll(func(f *pflag.Flag) {
		rows = append(rows, []string{f.Name, f.Shorthand, f.Value.Type(), f.NoOptDefVal})
	})
	if err := table.WriteAll(rows); err != nil {
		t.Fatal(err)
	}
	golden.File(t, "../../internal/cli/dialect/testdata/flags.csv", b.String())
}

// TestTranslationsParse checks that the flag parser accepts the translations of package dialect.
func TestTranslationsParse(t *testing.T) {
	text, err := os.ReadFile("../../internal/cli/dialect/testdata/lines.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range strings.Split(string(text), "\n$ ")[1:] {
		args := strings.Fields(strings.Split(c, "\n")[1])
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "·", " ")
		}
		if flags, _ := settings.NewFlags(); !slices.Equal(args, []string{"version"}) {
			if err := flags.Parse(args); err != nil {
				t.Errorf("%q: %v", args, err)
			}
		}
	}
}
