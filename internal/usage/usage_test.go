package usage

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/files"
	"github.com/gorun/gorun/internal/test/must"
)

func TestMistakes(t *testing.T) {
	err := fmt.Errorf("line 1: %w", Errorf("write -np 4", "-np %d: %w", 0, fs.ErrInvalid))
	check.That(t, Is(err) && Hint(err) == "write -np 4" && errors.Is(err, fs.ErrInvalid) &&
		err.Error() == "line 1: -np 0: invalid argument", "%v, hint %q", err, Hint(err))
	err = errors.New("x")
	check.That(t, !Is(err) && Hint(err) == "" && !Is(nil) && Hint(nil) == "", "any error is a mistake")
}

func TestNearest(t *testing.T) {
	names := []string{"hosts", "hostfile", "timeout", "start-timeout", "no-oversubscribe", "dry-run", "verbose",
		"stdin", "all", "log", "loss"}
	for word, want := range map[string]string{
		"hostfle":                   "hostfile",
		"host-file":                 "hostfile",
		"no-oversubsribe":           "no-oversubscribe",
		"timout":                    "timeout",
		"dryrun":                    "dry-run",
		"verbos":                    "verbose",
		"hosts":                     "hosts",
		"stdn":                      "stdin",
		"mca":                       "",
		"":                          "",
		"something-else-altogether": "",
		"timeuot":                   "timeout",
		"stdni":                     "stdin",
		"drain":                     "",
		"std":                       "",
		"al":                        "all",
		"los":                       "loss",
		"a":                         "",
		"host":                      "hosts",
		"nodes":                     "hosts",
		"plan":                      "dry-run",
		"dry":                       "dry-run",
	} {
		check.Equal(t, Nearest(word, names), want, "nearest of", word)
	}
	check.Equal(t, Nearest("a", nil), "", "nearest of nothing")
}

func TestFileHint(t *testing.T) {
	dir := files.Make(t, map[string]string{"hosts.txt": "", "it's here/data.txt": ""})
	for name, want := range map[string]string{
		"hots.txt":           "did you mean " + dir + "/hosts.txt?",
		"it's here/dta.txt":  "did you mean " + prose.Quoted(dir+"/it's here/data.txt") + "?",
		"hosts.txt":          "else",
		"ranks.txt":          "else",
		"no folder/data.txt": "else",
	} {
		check.Equal(t, FileHint(filepath.Join(dir, name), "else"), want, name)
	}
}

// A folder that somebody else has filled takes little time and memory.
func TestHintsOfHugeFoldersTakeLittle(t *testing.T) {
	dir := t.TempDir()
	const many = 20000
	for i := range many {
		must.OK(t, syscall.Mknod(filepath.Join(dir, fmt.Sprint("hosts-", i)), syscall.S_IFREG|0o600, 0))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	FileHint(filepath.Join(dir, "hosts"), "")
	runtime.ReadMemStats(&after)
	took := after.Mallocs - before.Mallocs // some seven for each name that is compared
	check.That(t, took < 5*many, "%d names took %d pieces of memory", many, took)
}

func TestEditDistance(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2},
		{"ab", "ba", 1}, {"stakcs", "stacks", 1}, {"abc", "cab", 2},
	} {
		if got := editDistance(tc.a, tc.b); got != tc.want || editDistance(tc.b, tc.a) != tc.want {
			t.Errorf("%q and %q: %d, and back %d, want %d", tc.a, tc.b, got, editDistance(tc.b, tc.a), tc.want)
		}
	}
}
