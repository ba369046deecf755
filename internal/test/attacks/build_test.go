package attacks

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	testfiles "github.com/gorun/gorun/internal/test/files"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// Sources that pip or Spack has unpacked below /tmp are built of their own modules, whatever
// workspace or repository others have put into a folder above.
func TestSourcesBelowAFolderOfOthersAreBuiltAlone(t *testing.T) {
	lab.Need(t, "make", "go")
	makefile := string(must.Get(os.ReadFile(filepath.Join(root, "Makefile")))(t))
	module := func(name, more string) string { return "module " + name + "\n\ngo 1.26.0\n" + more }
	says := func(word string) string { return "package dep\n\nconst Word = \"" + word + "\"\n" }
	const replaced = "example.com/dep => "
	for what, planted := range map[string]map[string]string{
		"a workspace": {
			"go.work":     "go 1.26.0\n\nuse ./unpacked\n\nreplace " + replaced + "./evil\n",
			"evil/go.mod": module("example.com/dep", ""),
			"evil/dep.go": says("evil"),
		},
		"a workspace of a later Go": {"go.work": "go 1.99.0\n"},
		"a repository":              {".git/HEAD": "nowhere\n"},
	} {
		t.Run(what, func(t *testing.T) {
			all := maps.Clone(planted)
			maps.Copy(all, map[string]string{
				"unpacked/Makefile": makefile,
				"unpacked/go.mod": module("example.com/main",
					"\nrequire example.com/dep v1.0.0\n\nreplace "+replaced+"./dep\n"),
				"unpacked/cmd/gorun/main.go": "package main\n\nimport \"example.com/dep\"\n\n" +
					"func main() { print(dep.Word) }\n",
				"unpacked/dep/go.mod": module("example.com/dep", ""),
				"unpacked/dep/dep.go": says("own"),
			})
			unpacked := filepath.Join(testfiles.Make(t, all), "unpacked")
			build := exec.CommandContext(t.Context(), "make", "-s", "launcher")
			build.Dir = unpacked
			build.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
				return strings.HasPrefix(kv, "GOWORK=") || strings.HasPrefix(kv, "GOFLAGS=")
			})
			build.Env = append(build.Env, "GOENV=off", "GOTOOLCHAIN=local")
			out, err := build.CombinedOutput()
			must.That(t, err == nil, "make: %v\n%s", err, out)
			said, err := exec.CommandContext(t.Context(), filepath.Join(unpacked, "bin/gorun")).CombinedOutput()
			check.That(t, err == nil && string(said) == "own", "what was built says %q, %v", said, err)
		})
	}
}

// Nor does a repository of a folder above say which version they are.
func TestSourcesBelowARepositoryOfOthersHaveNoVersionOfIt(t *testing.T) {
	lab.Need(t, "make", "git", "python3")
	own := func(name string) string { return string(must.Get(os.ReadFile(filepath.Join(root, name)))(t)) }
	dir := testfiles.Make(t, map[string]string{
		"unpacked/Makefile":               own("Makefile"),
		"unpacked/ring/python/version.py": own("ring/python/version.py"),
	})
	described := func(dir string) string {
		cmd := exec.CommandContext(t.Context(), "make", "-s", "-f", filepath.Join(dir, "Makefile"), "-C", dir,
			"--eval", "described:; @git describe --tags 2>&1 || echo none", "described")
		out, _ := cmd.CombinedOutput()
		python := exec.CommandContext(t.Context(), "python3", "-Bc", "import version; print(version.version())")
		python.Dir = filepath.Join(dir, "ring/python")
		return string(out) + string(must.Run(t, python))
	}
	for _, words := range [][]string{{"init", "-q"}, {"-c", "user.name=a", "-c", "user.email=a@a", "commit", "-q",
		"--allow-empty", "-m", "a"}, {"tag", "v9.9.9"}} {
		must.Run(t, exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, words...)...))
	}
	check.That(t, strings.HasSuffix(described(filepath.Join(dir, "unpacked")), "none\n0.0.0.dev0+gunknown\n"),
		"its version is %q", described(filepath.Join(dir, "unpacked")))
	must.OK(t, os.Rename(filepath.Join(dir, ".git"), filepath.Join(dir, "unpacked", ".git")))
	check.Equal(t, described(filepath.Join(dir, "unpacked")), "v9.9.9\n9.9.9\n", "the version by its own repository")
}
