package main

import (
	"testing"

	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/usage"
)

func TestProgramHint(t *testing.T) {
	golden.Cases(t, "testdata/hints.txt", func(typed string) (string, error) {
		argv, err := usage.SplitShell(typed)
		if err != nil {
			return "", err
		}
		o, _, program, _ := seen(t, append([]string{"gorun"}, argv...)...)
		return programHint(program, true, &o, []string{"bench", "version"}), nil
	})
}
