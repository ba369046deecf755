package main

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

func TestPackedCodeIsRefused(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), statements(), "statements")
	analysistest.Run(t, analysistest.TestData(), literals(), "literals")
	analysistest.Run(t, analysistest.TestData(), lines(), "wide")
}

func TestTabsHaveFourColumns(t *testing.T) {
	for text, want := range map[string]int{"": 0, "\t": 4, "a\tb": 5, "日本": 2} {
		if got := width(text); got != want {
			t.Errorf("width(%q) = %d, want %d", text, got, want)
		}
	}
}
