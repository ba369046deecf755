package ssh

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

const insideEnv = "GORUN_TEST_INSIDE"

// inside runs the calling test in the launcher's host of a new cluster: outside
// it starts the test once more in there and returns false; inside it returns the
// ssh_config and true.
func inside(t *testing.T, specs ...lab.Spec) (config string, ok bool) {
	t.Helper()
	if config = os.Getenv(insideEnv); config != "" {
		return config, true
	}
	c := lab.MustNamespaces(t, specs...)
	cmd := c.Command(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), insideEnv+"="+c.ConfigFile)
	out, err := cmd.CombinedOutput()
	check.That(t, err == nil && bytes.Contains(out, []byte("--- PASS: "+t.Name())), "inside: %v\n%s", err, out)
	return "", false
}

// TestOpenSSHLoginShells runs and puts by way of every login shell, with start
// files that print, and finds a relative path in the home.
func TestOpenSSHLoginShells(t *testing.T) {
	must.HaveTime(t)
	shells := []string{"sh", "bash", "tcsh", "fish", "zsh"}
	noise := "echo 'Welcome!'; echo 'to this host'\n"
	var specs []lab.Spec
	for _, name := range shells {
		lab.Need(t, name)
		path := must.Get(exec.LookPath(name))(t)
		server := []string{"MaxSessions 1", "Subsystem sftp /usr/lib/openssh/sftp-server"}
		specs = append(specs, lab.Spec{
			Name:    name,
			Shell:   path,
			NoSFTP:  true,
			Options: server,
			Files: map[string]string{
				".bashrc": noise, ".cshrc": noise, ".zshenv": noise, ".config/fish/config.fish": noise,
			},
		})
	}
	config, ok := inside(t, specs...)
	if !ok {
		return
	}
	for _, name := range shells {
		t.Run(name, func(t *testing.T) {
			c := must.Get(Dial(t.Context(), Config{Host: name, ConfigFile: config}))(t)
			defer c.Close()
			words := nasty()
			out := mustRun(t, c, append([]string{"/usr/bin/printf", `<%s>`}, words...)...)
			want := "<" + strings.Join(words, "><") + ">"
			check.That(t, strings.HasSuffix(out, want), "got  %q\nwant %q", out, want)
			program := ".cache/gorun/it is/program"
			must.OK(t, c.Put(t.Context(), program, 0o700, strings.NewReader("#!/bin/sh\necho $PWD\n")))
			home := mustRun(t, c, program)
			check.That(t, strings.HasSuffix(home, filepath.Join(filepath.Dir(config), "home")),
				"the program ran in %q", home)
		})
	}
}
