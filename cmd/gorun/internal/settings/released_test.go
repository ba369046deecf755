package settings

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/spf13/pflag"
)

const releasedFile = "testdata/released.txt"

// Configuration files, job files and GORUN_ variables of the last release, of which
// testdata/released.txt has the settings and their types, mean the same now. UPDATE=1 writes the
// file, for a release.
func TestSettingsOfTheLastReleaseRemain(t *testing.T) {
	flags, _ := NewFlags()
	if os.Getenv("UPDATE") != "" {
		var lines strings.Builder
		flags.VisitAll(func(f *pflag.Flag) { fmt.Fprintln(&lines, kindOf(f)) })
		must.OK(t, os.WriteFile(releasedFile, []byte(lines.String()), 0o644))
	}
	text := must.Get(os.ReadFile(releasedFile))(t)
	released := strings.Split(strings.TrimSpace(string(text)), "\n")
	check.That(t, len(released) >= 60, "%s has only %d lines", releasedFile, len(released))
	for _, line := range released {
		name := strings.Fields(line)[0]
		f := flags.Lookup(name)
		if f == nil {
			t.Errorf("files of the last release may have %s: keep it, if need be as a flag that is hidden and has no "+
				"effect", name)
		} else if now := kindOf(f); now != line {
			t.Errorf("in the last release it was %q, and is now %q: take the old values too", line, now)
		}
	}
}

// kindOf is the name of a setting, the values that it takes, and what it means without one.
func kindOf(f *pflag.Flag) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", f.Name, f.Value.Type(), f.NoOptDefVal))
}
