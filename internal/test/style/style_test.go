package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"
)

func TestPackedCodeIsRefused(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), statements(), "statements")
	analysistest.Run(t, analysistest.TestData(), literals(), "literals")
	analysistest.Run(t, analysistest.TestData(), lines(), "wide")
}

func TestAssignmentsBesideGoroutinesAreRefused(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), captures(), "captures")
}

func TestTabsHaveFourColumns(t *testing.T) {
	for text, want := range map[string]int{"": 0, "\t": 4, "a\tb": 5, "日本": 2} {
		if got := width(text); got != want {
			t.Errorf("width(%q) = %d, want %d", text, got, want)
		}
	}
}

// A file of another system is read like any other.
func TestFilesAreChecked(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a_plan9.go")
	if err := os.WriteFile(name, []byte("//go:build plan9\n\npackage a\n\nvar b, c = 1, 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := check(name, []*analysis.Analyzer{statements(), literals(), lines()})
	want := []string{name + ":5:5: 2 values in one definition: one statement each"}
	if err != nil || !slices.Equal(found, want) {
		t.Errorf("%q, %v, want %q", found, err, want)
	}
	if _, err := check(name+"x", nil); err == nil {
		t.Error("a missing file passes")
	}
}
