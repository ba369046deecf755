package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// PyPI's gorun is another project, and has a command of the same name: beside it, the package says
// how to get rid of it.
func TestTheOtherGorunIsRefused(t *testing.T) {
	for neighbour, refused := range map[string]bool{
		"gorun-1.7.dist-info": true, "gorun-1.7-py3.9.egg-info": true, "gorun-1.7.egg": true,
		"gorun_launcher-0.2.0.dist-info": false, "gorun_tools-1.7.dist-info": false,
	} {
		site := t.TempDir()
		here, err := filepath.Abs("gorun")
		if err == nil {
			err = os.Symlink(here, filepath.Join(site, "gorun"))
		}
		if err == nil {
			err = os.Mkdir(filepath.Join(site, neighbour), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), interpreter, "-B", "-c", "import gorun; print(gorun.__file__)")
		cmd.Dir = site
		cmd.Env = append(os.Environ(), "PYTHONPATH="+site)
		out, err := cmd.CombinedOutput()
		if refused && (err == nil || !strings.Contains(string(out), "ImportError: gorun: the distribution gorun 1.7 "+
			"is also installed in "+site) || !strings.Contains(string(out), "pip uninstall gorun;")) {
			t.Errorf("%s: %v\n%s", neighbour, err, out)
		}
		if !refused && (err != nil || !strings.HasPrefix(string(out), site)) {
			t.Errorf("%s: %v\n%s", neighbour, err, out)
		}
	}
}

// Versions are those of tags, in the form that pip compares.
func TestVersionOfTheDistribution(t *testing.T) {
	for described, want := range map[string]string{
		"v0.2.0-0-g1234567":      "0.2.0",
		"v0.2.0-5-g1234567":      "0.2.0.post5+g1234567",
		"v1.0.0-rc1-0-g1234567":  "1.0.0rc1",
		"v1.0.0-rc.2-3-gabcdef0": "1.0.0rc2.post3+gabcdef0",
		"v1.0-beta1-0-g1234567":  "1.0b1",
		"something-0-g1234567":   "",
		"":                       "",
	} {
		out, err := exec.CommandContext(t.Context(), interpreter, "-B", "-c",
			"import sys, version; print(version.number(sys.argv[1]))", described).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s is %s, want %s (%v)", described, got, want, err)
		}
	}
}
