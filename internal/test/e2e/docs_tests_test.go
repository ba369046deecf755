package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/documents"
	"github.com/gorun/gorun/internal/test/must"
)

// proof is what the documentation names as a test, and the folder that it is said to be in.
type proof struct{ name, folder string }

// proofs returns the tests that a cell names: "`A`, `B`; `C` in FOLDER", where A and B are in the
// folder usual. What begins with no Test or Fuzz is a path of the repository.
func proofs(cell, usual string) (found []proof) {
	for part := range strings.SplitSeq(cell, ";") {
		names, folder, named := strings.Cut(part, " in ")
		if !named {
			folder = usual
		}
		for _, name := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(names, -1) {
			found = append(found, proof{name[1], strings.TrimSpace(folder)})
		}
	}
	return found
}

// exists reports whether the repository has the test in the folder.
func (p proof) exists(t *testing.T) bool {
	t.Helper()
	if !strings.HasPrefix(p.name, "Test") && !strings.HasPrefix(p.name, "Fuzz") {
		_, err := os.Stat(filepath.Join(root, p.name))
		return err == nil
	}
	name, script, sub := strings.Cut(p.name, "/")
	if sub {
		if _, err := os.Stat(filepath.Join(root, p.folder, "testdata/script", script+".txtar")); err != nil {
			return false
		}
	}
	files := must.Get(filepath.Glob(filepath.Join(root, p.folder, "*_test.go")))(t)
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		for _, parameter := range []string{"(t *testing.T)", "(f *testing.F)"} {
			if strings.Contains(string(text), "\nfunc "+name+parameter) {
				return true
			}
		}
	}
	return false
}

// Every promise of the threat model names tests, and those exist.
func TestEveryPromiseHasATest(t *testing.T) {
	const usual = "internal/test/attacks"
	_, table, found := strings.Cut(documents.Text(t, root, "docs/security.md"), "\n## Threat model\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| attacker |") {
			continue
		}
		if rows++; len(cells) != 5 {
			t.Errorf("%d cells: %s", len(cells), line)
			continue
		}
		named := proofs(cells[4], usual)
		check.That(t, len(named) != 0, "no test shows: %s", line)
		for _, p := range named {
			check.That(t, p.exists(t), "there is no %s in %s, which is to show: %s", p.name, p.folder, line)
		}
	}
	check.That(t, found && rows >= 20, "docs/security.md has a threat model of %d rows", rows)
}

// Tests that any document names exist somewhere.
func TestDocumentsNameExistingTests(t *testing.T) {
	have := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, name := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w*)\(`).FindAllStringSubmatch(string(text), -1) {
			have[name[1]] = true
		}
		return err
	})
	must.That(t, err == nil && len(have) >= 100, "%d tests: %v", len(have), err)
	for _, name := range documents.Names(t, root) {
		for _, word := range regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*`).FindAllString(documents.Text(t,
			root, name), -1) {
			check.That(t, have[word], "%s names %s, which is no test", name, word)
		}
		for _, bench := range regexp.MustCompile("-bench ('[^']*'|[A-Z][^ `]*)").FindAllStringSubmatch(documents.Text(t,
			root, name), -1) {
			pattern, _, _ := strings.Cut(strings.Trim(bench[1], "'"), "/")
			matches := regexp.MustCompile(pattern).MatchString
			found := slices.ContainsFunc(slices.Collect(maps.Keys(have)), func(test string) bool {
				return strings.HasPrefix(test, "Benchmark") && matches(test)
			})
			check.That(t, found, "%s measures by -bench %s, which matches no benchmark", name, bench[1])
		}
	}
}

func TestProofsCanFail(t *testing.T) {
	got := proofs("`TestA`, `TestB`; `TestC/x`, `TestD` in ring; `.ci/supply`", "usual")
	want := []proof{{"TestA", "usual"}, {"TestB", "usual"}, {"TestC/x", "ring"}, {"TestD", "ring"},
		{".ci/supply", "usual"}}
	must.That(t, len(got) == len(want), "%v", got)
	for i := range want {
		check.Equal(t, got[i], want[i])
	}
	for p, want := range map[proof]bool{
		{"TestProofsCanFail", "internal/test/e2e"}: true, {"TestProofsCanFail", "ring"}: false,
		{"TestNothingSuch", "internal/test/e2e"}: false,
		{"TestScripts/ssh", "internal/test/e2e"}: true, {"TestScripts/none", "internal/test/e2e"}: false,
		{".ci/supply", ""}: true, {".ci/none", ""}: false,
	} {
		check.That(t, p.exists(t) == want, "%v: want %v", p, want)
	}
}
