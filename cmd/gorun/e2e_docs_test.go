package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/lab"
)

// TestDocumentedCommandsRun runs every command of some documents, on hosts of the names that they use, and
// compares what it prints with what stands there.
func TestDocumentedCommandsRun(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(2)...)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"job-files.md", "environment.md", "hosts.md"} {
		text, err := os.ReadFile(filepath.Join(root, "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := os.Symlink(filepath.Join(root, "examples"), filepath.Join(dir, "examples")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "hosts.txt"), []byte("f[01-16,20]:2\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		commands := typedIn(string(text))
		for _, command := range commands {
			cmd := c.Command(t.Context(), "bash", "-c", command.line)
			if cmd.Env == nil {
				cmd.Env = os.Environ()
			}
			cmd.Dir = dir
			cmd.Env = append(cmd.Env, "HOME="+t.TempDir(), "GORUN_SSH_CONFIG="+c.ConfigFile, "PATH="+filepath.Dir(binary("gorun"))+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s: $ %s\n%v\n%s", name, command.line, err, out)
			}
			want := command.want
			if len(want) == 0 {
				want = []string{""}
			}
			if got := linesOf(string(out)); !holds(got, want) {
				t.Errorf("%s: $ %s\ngot\n%s\nwant\n%s", name, command.line, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		if len(commands) < 3 {
			t.Errorf("%s has %d commands", name, len(commands))
		}
	}
}
