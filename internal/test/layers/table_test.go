package layers

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/must"
)

// The table of packages in docs/design.md has a row for each folder of the product, and none else.
func TestDesignNamesEveryPackage(t *testing.T) {
	text := must.Get(os.ReadFile(filepath.Join(root, "docs/design.md")))(t)
	_, table, _ := strings.Cut(string(text), "## Packages\n")
	table, _, _ = strings.Cut(table, "\n#")
	for _, fault := range compare(rowsOf(table), productFolders(t)) {
		t.Error(fault)
	}
}

func TestComparisonCanFail(t *testing.T) {
	rows := rowsOf("| folder | what it is |\n|---|---|\n| ring/internal/tcp, rails | text |\n| gpu | text, more |\n")
	if want := []string{"ring/internal/tcp", "ring/internal/rails", "gpu"}; !slices.Equal(rows, want) {
		t.Errorf("got %q, want %q", rows, want)
	}
	faults := compare(rows, []string{"gpu", "ssh", "ring/internal/tcp"})
	if len(faults) != 2 || !strings.Contains(faults[0], "ssh") || !strings.Contains(faults[1], "rails") {
		t.Errorf("got %q", faults)
	}
}

// rowsOf returns the folders of a table's first column. Names after a comma without a slash are
// beside the first.
func rowsOf(text string) []string {
	var rows []string
	for _, m := range regexp.MustCompile(`(?m)^\| ([a-z][\w/, -]*) \|`).FindAllStringSubmatch(text, -1) {
		names := strings.Split(m[1], ", ")
		if names[0] == "folder" {
			continue
		}
		for i, name := range names {
			if i > 0 && !strings.Contains(name, "/") {
				name = filepath.Join(filepath.Dir(names[0]), name)
			}
			rows = append(rows, name)
		}
	}
	return rows
}

// productFolders returns the folders that hold Go files of the product, relative to the root.
func productFolders(t *testing.T) []string {
	t.Helper()
	files := must.Get(filepath.Glob(root + "/*/*.go"))(t)
	found := map[string]bool{}
	for _, depth := range []string{"*/*", "*/*/*", "*/*/*/*"} {
		more := must.Get(filepath.Glob(root + "/" + depth + "/*.go"))(t)
		files = append(files, more...)
	}
	for _, name := range files {
		folder := must.Get(filepath.Rel(root, filepath.Dir(name)))(t)
		if strings.HasSuffix(name, "_test.go") || strings.Contains(folder, "testdata") ||
			folder[0] == '.' || below(folder, "examples") {
			continue
		}
		for _, area := range []string{"internal/test", "internal/tools"} { // have one row each
			if below(folder, area) {
				folder = area
			}
		}
		found[folder] = true
	}
	var folders []string
	for folder := range found {
		folders = append(folders, folder)
	}
	slices.Sort(folders)
	return folders
}

func compare(rows, folders []string) []string {
	var faults []string
	for _, folder := range folders {
		if !slices.Contains(rows, folder) {
			faults = append(faults, fmt.Sprintf("the table of packages in docs/design.md has no row for %s", folder))
		}
	}
	for _, row := range rows {
		if !slices.Contains(folders, row) {
			faults = append(faults, fmt.Sprintf("the table of packages in docs/design.md has a row for %s, "+
				"which holds no code", row))
		}
	}
	return faults
}
