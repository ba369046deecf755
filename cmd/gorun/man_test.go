package main

import (
	"os"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/spf13/pflag"
)

// The manual lists every flag and command, and its exit codes match the documentation.
func TestManualIsComplete(t *testing.T) {
	root := quietCall("gorun").root
	text := manualPage(root).Roff()
	for _, name := range visible(root) {
		check.That(t, strings.Contains(text, ".B gorun "+name), "the manual has no command %s", name)
	}
	plain := strings.ReplaceAll(text, `\-`, "-")
	root.Flags().VisitAll(func(f *pflag.Flag) {
		option := "--" + f.Name
		check.That(t, strings.Contains(plain, option+"\n") || strings.Contains(plain, option+" "),
			"the manual has no %s", option)
	})
	doc := must.Get(os.ReadFile("../../docs/exit-codes.md"))(t)
	for _, s := range referenceSections() {
		for _, term := range s.Terms {
			check.That(t, s.Title != "Exit status" || term.Word == "others" ||
				strings.Contains(string(doc), "| "+term.Word+" |"),
				"docs/exit-codes.md has no %s", term.Word)
		}
	}
}
