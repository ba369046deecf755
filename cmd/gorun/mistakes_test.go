package main

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
)

// Every name for which users type synonyms is a command or a flag of gorun.
func TestSynonymsLeadToCommandsAndFlags(t *testing.T) {
	root := newInvocation([]string{"gorun"}, nil, io.Discard, io.Discard, nil).root
	text := must.Get(os.ReadFile("../../internal/usage/synonyms.txt"))(t)
	for line := range strings.Lines(string(text)) {
		name, _, found := strings.Cut(line, ":")
		check.That(t, !found || line[0] == '#' || slices.Contains(visible(root), name) ||
			root.Flags().Lookup(name) != nil, "gorun has no %s", name)
	}
}

func TestProgramHint(t *testing.T) {
	commands := visible(newInvocation([]string{"gorun"}, nil, io.Discard, io.Discard, nil).root)
	golden.Cases(t, "testdata/hints.txt", func(typed string) (string, error) {
		argv, err := usage.SplitShell(typed)
		if err != nil {
			return "", err
		}
		o, _, program, _ := seen(t, append([]string{"gorun"}, argv...)...)
		return programHint(program, true, &o, commands), nil
	})
}
