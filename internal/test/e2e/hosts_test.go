package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
)

// The hosts of these tests have their own homes, login shells and accounts, and no gorun.

// startStaged starts a gorun that the hosts lack: it is in the home directory of the launcher's host.
func startStaged(t *testing.T, c *lab.Cluster, args ...string) *run {
	t.Helper()
	install := c.Command(t.Context(), "sh", "-c", `mkdir -p ~/bin && cp "$0" ~/bin/gorun.new && mv ~/bin/gorun.new ~/bin/gorun`, binary("gorun"))
	if err := install.Run(); err != nil {
		t.Fatal(err)
	}
	return startPath(t, c, filepath.Join(userHome(t, c), "bin/gorun"), nil, args...)
}

// userHome returns the path of the home directory, the same on every host of c.
func userHome(t *testing.T, c *lab.Cluster) string {
	t.Helper()
	home, err := c.Command(t.Context(), "sh", "-c", "cd && pwd").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(home))
}

func TestEveryLoginShellAndHome(t *testing.T) {
	noise := "echo welcome to $HOSTNAME\necho 'on stderr' >&2\nprintf 'no newline'\n"
	specs := []lab.Spec{{Name: "plain"}}
	for _, s := range []struct{ path, file, noise string }{
		{"/bin/bash", ".bashrc", noise},
		{"/usr/bin/tcsh", ".tcshrc", "echo welcome from csh\n"},
		{"/usr/bin/fish", ".config/fish/config.fish", "echo welcome from fish\n"},
		{"/usr/bin/zsh", ".zshenv", "echo welcome from zsh\n"},
		{"/bin/dash", ".profile", noise},
	} {
		if _, err := os.Stat(s.path); err != nil {
			lab.Skip(t, s.path+" is not installed")
		}
		specs = append(specs, lab.Spec{Name: filepath.Base(s.path), Shell: s.path, Files: map[string]string{s.file: s.noise},
			Env: []string{"PATH=/usr/bin:/bin:/only/on/" + filepath.Base(s.path)}})
	}
	c := lab.MustNamespacesAs(t, 65534, specs...)
	var names []string
	for _, s := range specs {
		names = append(names, s.Name)
	}
	hosts := strings.Join(names, ",")
	home := userHome(t, c)
	for _, round := range []string{"first", "cached"} {
		r := startStaged(t, c, "-v", "--prefix", "none", "--wdir", "/", "-H", hosts, "sh", "-c", "echo $GORUN_HOSTNAME $HOME $(hostname)")
		r.want(0)
		if n := strings.Count(r.err.String(), " bytes\n"); n != map[string]int{"first": len(names)}[round] {
			t.Errorf("%s: %d compressed uploads to %d hosts: %s", round, n, len(names), &r.err)
		}
		for _, name := range names {
			if want := fmt.Sprintf("%s %s %s\n", name, home, name); !strings.Contains(r.out.String(), want) {
				t.Errorf("%s: nothing from %s in %q, stderr %q", round, name, &r.out, &r.err)
			}
		}
	}
	for _, name := range names {
		staged, _ := filepath.Glob(filepath.Join(c.Host(name).Home, ".cache/gorun/*/gorun"))
		if len(staged) != 1 {
			t.Errorf("%s: staged %q", name, staged)
		}
		rest, _ := filepath.Glob(filepath.Join(c.Host(name).Home, ".cache/gorun/*/.*"))
		if len(rest) != 0 {
			t.Errorf("%s: the upload left %q", name, rest)
		}
	}
}

func TestHostWithoutSFTPGetsTheAgentAllTheSame(t *testing.T) {
	c := lab.MustNamespacesAs(t, 65534, lab.Spec{NoSFTP: true, Options: []string{"MaxSessions 1"}})
	startStaged(t, c, "--wdir", "/", "-H", "f1", "true").want(0)
}

func TestSharedHomeIsUploadedToOnce(t *testing.T) {
	var specs []lab.Spec
	for range 6 {
		specs = append(specs, lab.Spec{Home: "shared"})
	}
	c := lab.MustNamespacesAs(t, 65534, specs...)
	r := startStaged(t, c, "-v", "--wdir", "/", "-H", "f1,f2,f3,f4,f5,f6", "true").want(0)
	if n := strings.Count(r.err.String(), "uploaded"); n != 1 {
		t.Errorf("%d uploads to one file system:\n%s", n, &r.err)
	}
}

func TestLockedAccountIsExplained(t *testing.T) {
	c := lab.MustNamespacesAs(t, 65534, lab.Spec{Shell: "/usr/sbin/nologin"})
	start(t, c, "-H", "f1", "true").want(125, "f1: ")
}

func TestHostThatVanishes(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	r := start(t, c, "-np", "4", "-H", "f1:2,f2:2", "sh", "-c", "echo up; exec sleep 300")
	await(t, "the ranks", func() bool { return strings.Count(r.out.String(), "up") == 4 })
	if err := c.Cut(t.Context(), "f2"); err != nil {
		t.Fatal(err)
	}
	cut := time.Now()
	code := r.wait()
	if took := time.Since(cut); code != 125 || took > 20*time.Second || !strings.Contains(r.err.String(), "f2") {
		t.Errorf("exit code %d after %v; stderr %q", code, took, &r.err)
	}
}
