package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/must"
)

// TestOutputDocument runs the example of docs/output.md that writes steps.json, and finds gorun's
// messages there.
func TestOutputDocument(t *testing.T) {
	text := must.Get(os.ReadFile(root + "/docs/output.md"))(t)
	var example string
	for line := range strings.Lines(string(text)) {
		if args, typed := strings.CutPrefix(strings.TrimSpace(line), "$ gorun "); typed &&
			strings.Contains(args, "steps.json") {
			example = args
		}
	}
	must.That(t, example != "", "docs/output.md has no example")
	r := command.Start(t, nil, "version").Want(0) // only for its mark
	cmd := exec.Command("sh", "-c", `exec "$0" `+example, command.Binary("gorun"))
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), r.Mark)
	said, _ := cmd.CombinedOutput()
	steps, err := os.ReadFile(filepath.Join(cmd.Dir, "steps.json"))
	check.That(t, cmd.ProcessState.ExitCode() == 1 && strings.Count(string(steps), "\n") == 8,
		"%q: %v, %s\n%s", example, err, said, steps)
	for line := range strings.Lines(string(steps)) {
		var e step
		if err := json.Unmarshal([]byte(line), &e); err != nil || !strings.Contains(string(text), "| `"+e.Event+"` |") {
			t.Errorf("docs/output.md does not have %q (%v)", line, err)
		}
	}
	failures := must.Get(os.ReadFile(root + "/cmd/gorun/internal/ui/testdata/failures.txt"))(t)
	_, rest, _ := strings.Cut(string(text), "```\ngorun: error:")
	failure, _, _ := strings.Cut(rest, "```")
	check.That(t, failure != "" && strings.Contains(string(failures), failure), "gorun does not say %q", failure)
}
