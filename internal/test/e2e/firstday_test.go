package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/environ"

	"github.com/gorun/gorun/internal/test/golden"
)

// TestFirstDay types command lines that users of other launchers, or of none, get wrong on their first day. Every answer
// in testdata/firstday.txt names the mistake, where it is, and what to type instead.
func TestFirstDay(t *testing.T) {
	environ.Quiet(t)
	dir := firstDay(t)
	golden.Transcript(t, testdata("firstday.txt"), 15, func(argv []string) string {
		r := startPath(t, nil, filepath.Join(dir, argv[0]), nil, argv[1:]...)
		code, said := r.wait(), r.err.String()
		if code == 0 || r.out.Len() > 0 || !strings.Contains(said, "gorun: error: ") || !strings.Contains(said, "gorun: hint: ") {
			t.Errorf("%q: code %d, stdout %q, stderr %q", argv, code, &r.out, said)
		}
		return fmt.Sprintf("%s(exit code %d)\n", withoutPlace(said, dir), code)
	})
}

// firstDay makes a beginner's directory, with gorun under the launchers' names, and changes to it.
func firstDay(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("PATH", dir+"/bin:/usr/bin:/bin")
	for _, folder := range []string{"results", "bin"} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range map[string]string{"train.py": "print('hi')\n", "hosts.txt": "f1 slots=2\nf2 slots=two\n", "bin/python": "#!/bin/sh\necho \"unknown option: $1\" >&2\nexit 2\n"} {
		mode := os.FileMode(0o644)
		if file == "bin/python" {
			mode = 0o755
		}
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, launcher := range []string{"gorun", "mpirun", "horovodrun", "torchrun", "srun"} {
		if err := os.Symlink(binary("gorun"), launcher); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// withoutPlace removes from gorun's messages what differs between machines and runs.
func withoutPlace(said, dir string) string {
	said = strings.ReplaceAll(said, dir, "/home/ada")
	said = regexp.MustCompile(`\(after [0-9.]+ s, at [0-9:]+\)`).ReplaceAllString(said, "(after 1.50 s, at 20:51:31)")
	return regexp.MustCompile(`(?m)^.*(stopped the other ranks|localhost:).*\n`).ReplaceAllStringFunc(said, func(line string) string {
		if strings.HasPrefix(line, "gorun: error: ") {
			return line
		}
		return ""
	})
}
