package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/must"
)

// former returns the path of another gorun: GORUN_FORMER, of another release, or one that it
// builds, which speaks another protocol with its agents.
func former(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("GORUN_FORMER"); path != "" {
		return path
	}
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, content, 0o644))
		return path
	}
	source := filepath.Join(root, "internal/net/wire/frame.go")
	text := must.Get(os.ReadFile(source))(t)
	other := regexp.MustCompile(`(?m)^const Protocol = \d+$`).ReplaceAllString(string(text), "const Protocol = 1")
	must.That(t, other != string(text) && wire.Protocol != 1, "frame.go has no protocol to replace")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {source: write("frame.go", []byte(other))}})
	must.OK(t, err)
	gorun := filepath.Join(dir, "gorun")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-overlay", write("overlay.json", overlay),
		"-o", gorun, "./cmd/gorun")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	must.Run(t, cmd)
	return gorun
}

// A user who changes to another version, later or earlier, goes on with what the first one runs:
// jobs in the background, and kept hosts. Agents are of the version of their job's launcher.
func TestVersionsRunBesideEachOther(t *testing.T) {
	k := newKeptLab(t)
	old := former(t)
	now := command.Binary("gorun")
	run := func(gorun string, args ...string) *command.Run {
		t.Helper()
		r := command.StartPath(t, k.hosts, gorun, []string{"HOME=" + k.home, "XDG_RUNTIME_DIR="}, args...)
		code := r.Wait()
		must.That(t, code == 0, "%q: exit code %d\n%s%s", args, code, &r.Out, &r.Err)
		return r
	}
	for _, versions := range [][2]string{{old, now}, {now, old}} {
		first := versions[0]
		second := versions[1]
		run(first, "up", "-H", "f1:2,f2:2")
		run(first, "--detach", "--name", "train", "-np", "2", "-H", "f1,f2", "sh", "-c", "echo ready; exec sleep 1000")
		must.Until(k, "the job of one version in the list of the other", func() bool {
			return strings.Contains(run(second, "ps").Out.String(), "train")
		})
		must.Until(k, "its output", func() bool {
			return strings.Count(run(second, "logs", "train").Out.String(), "ready") == 2
		})
		out := run(second, "exec", "--rank", "1", "train", "echo", "beside rank 1").Out.String()
		check.That(t, strings.Contains(out, "beside rank 1"), "exec prints %q", out)
		r := run(second, "-v", "-np", "2", "-H", "f1,f2", "echo", "a rank runs")
		check.That(t, usesKept(r) && strings.Count(r.Out.String(), "a rank runs") == 2,
			"a job on hosts that another version keeps:\n%s%s", &r.Out, &r.Err)
		run(second, "kill", "train")
		run(second, "down")
		k.none("keepers", func() int { return len(k.keepers()) })
		k.none("agents and residents", func() int { return len(command.Processes()) })
	}
}
