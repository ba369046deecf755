package job

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/files"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
)

// The links of a Python environment lead out of its folder. It comes by a flag of its own.
func TestLinksOutOfStagedFolders(t *testing.T) {
	for name, hint := range map[string]string{"bin/pyvenv.cfg": "exclude it in .gorunignore",
		"pyvenv.cfg": "bring the Python environment on its own: --stage . --stage-env "} {
		dir := files.Make(t, map[string]string{".venv/bin/activate": "", ".venv/" + name: ""})
		must.OK(t, os.Symlink("/usr/bin/python3", filepath.Join(dir, ".venv", "bin", "python3")))
		t.Chdir(dir)
		_, err := stagedFolder(&settings.Options{Stage: "."}, true)
		check.That(t, strings.Contains(usage.Hint(err), hint), "%s: %v, hint %s", name, err, usage.Hint(err))
	}
}
