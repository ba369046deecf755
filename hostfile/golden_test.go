package hostfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// sections splits a test's file into its first part and those that a line
// "-- name --" begins.
func sections(t testing.TB, name string) (first string, parts map[string]string) {
	t.Helper()
	text := must.Get(os.ReadFile(name))(t)
	parts = map[string]string{}
	at := ""
	for line := range strings.SplitAfterSeq(string(text), "\n") {
		if title, ok := strings.CutPrefix(line, "-- "); ok {
			at = strings.TrimSuffix(title, " --\n")
			continue
		}
		parts[at] += line
	}
	must.That(t, parts["want"] != "", "%s has no part named want", name)
	return parts[""], parts
}

func inputs(t testing.TB, folder string, least int) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", folder, "*.txt"))
	must.That(t, err == nil && len(names) >= least, "%d files in %s, %v", len(names), folder, err)
	return names
}

func warningLines(warnings []string) string {
	var b strings.Builder
	for _, w := range warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	return b.String()
}

// TestFilesOfEveryLauncher reads hostfiles as they are found with other launchers.
func TestFilesOfEveryLauncher(t *testing.T) {
	for _, name := range inputs(t, "files", 13) {
		text, parts := sections(t, name)
		short, _ := filepath.Rel("testdata", name)
		got := ""
		list, err := Parse(short, strings.NewReader(text))
		if err == nil {
			var hosts []Host
			hosts, err = list.Hosts()
			got = Format(hosts) + warningLines(list.Warnings)
		}
		if err != nil {
			got = fmt.Sprintf("error: %v\n", err)
		}
		check.Equal(t, got, parts["want"], name)
	}
}

// world is an environment and its files.
func world(text string, files map[string]string) (lookup func(string) (string, bool),
	open func(string) (io.ReadCloser, error)) {
	env := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		if name, value, ok := strings.Cut(line, "="); ok {
			env[name] = value
		}
	}
	lookup = func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}
	open = func(name string) (io.ReadCloser, error) {
		text, ok := files[name]
		if !ok || name == "want" {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}
	return lookup, open
}

// TestEveryEnvironment finds hosts where schedulers and operators say that they are.
func TestEveryEnvironment(t *testing.T) {
	for _, name := range inputs(t, "environments", 20) {
		text, parts := sections(t, name)
		found, err := Default(world(text, parts))
		check.Equal(t, describe(found, err), parts["want"], name)
	}
}

func describe(a *Allocation, err error) string {
	switch {
	case err != nil:
		return fmt.Sprintf("error: %v\n", err)
	case a == nil:
		return "nothing\n"
	}
	np := ""
	if a.NP != 0 {
		np = fmt.Sprintf("np: %d\n", a.NP)
	}
	return "source: " + a.Source + "\n" + np + Format(a.Hosts) + warningLines(a.Warnings)
}

// TestSourcesAreDocumented compares docs/hosts.md with the order of sources.
func TestSourcesAreDocumented(t *testing.T) {
	text := must.Get(os.ReadFile("../docs/hosts.md"))(t)
	rest := string(text)
	var s sources
	names := []string{"SLURM_JOB_NODELIST"}
	for _, v := range s.variables() {
		names = append(names, v.name)
	}
	for _, name := range append(names, "K_MPI_JOB_ROLE") {
		_, after, found := strings.Cut(rest, "`"+name+"`")
		if !found {
			t.Errorf("docs/hosts.md does not name %s behind the sources that go before it", name)
			continue
		}
		rest = after
	}
}
