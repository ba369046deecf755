package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/cli/usage"
	"github.com/gorun/gorun/internal/test/environ"
)

// fileOf returns a file with these flags, all on line 1.
func fileOf(values map[string]string) settings {
	s := settings{name: "f.yaml"}
	for flag, value := range values {
		s.list = append(s.list, setting{flag, []string{value}, 1})
	}
	return s
}

// TestDefaultsPrecedence sets -np in every combination of sources.
func TestDefaultsPrecedence(t *testing.T) {
	for _, tc := range []struct {
		flag, env, file string
		want            int
		set             bool
	}{
		{"", "", "", 0, false},
		{"", "", "3", 3, true},
		{"", "2", "", 2, true},
		{"", "2", "3", 2, true},
		{"1", "", "", 1, true},
		{"1", "", "3", 1, true},
		{"1", "2", "", 1, true},
		{"1", "2", "3", 1, true},
		{"0", "2", "3", 0, true},
	} {
		flags, o := NewFlags()
		var argv []string
		if tc.flag != "" {
			argv = []string{"--np", tc.flag}
		}
		if err := flags.Parse(argv); err != nil {
			t.Fatal(err)
		}
		file := map[string]string{}
		if tc.file != "" {
			file["np"] = tc.file
		}
		// An empty variable counts as unset.
		if err := SetDefaults(flags, environ.Lookup(map[string]string{"GORUN_NP": tc.env, "GORUN_HOSTS": ""}), nil, fileOf(file)); err != nil {
			t.Fatal(err)
		}
		if o.NP != tc.want || flags.Changed("np") != tc.set {
			t.Errorf("%+v: np is %d, set %v", tc, o.NP, flags.Changed("np"))
		}
	}
}

func TestDefaultsOfEveryKind(t *testing.T) {
	flags, o := NewFlags()
	env := map[string]string{"GORUN_SSH_CONFIG": "c", "GORUN_NO_OVERSUBSCRIBE": "true", "GORUN_EXPORT": "A", "GORUN_START_TIMEOUT": "1h30m", "GORUN_VERBOSE": "2",
		"GORUN_RANK": "7", "GORUN_CONFIG": "not from here", "GORUN_HELP": "true"}
	file := map[string]string{"host-keys": "accept-new", "grace": "2.5", "tag-output": "true", "ssh-identity-file": "k", "ssh-port": "2222"}
	if err := SetDefaults(flags, environ.Lookup(env), nil, fileOf(file)); err != nil {
		t.Fatal(err)
	}
	if o.SSHConfig != "c" || !o.noOversubscribe || fmt.Sprint(o.Exports, o.Identities) != "[A] [k]" || time.Duration(o.StartTimeout) != 90*time.Minute ||
		o.Verbose != 2 || o.HostKeys != "accept-new" || time.Duration(o.Grace) != 2500*time.Millisecond || !o.TagOutput || o.SSHPort != 2222 || o.Config != "" {
		t.Errorf("%+v", *o)
	}
}

func TestDefaultsThatMakeNoSense(t *testing.T) {
	for name, tc := range map[string]struct {
		env  map[string]string
		file string
		want string
		hint string
	}{
		"a bad variable":      {env: map[string]string{"GORUN_NP": "four"}, want: "GORUN_NP=four: expected a whole number"},
		"a bad time":          {env: map[string]string{"GORUN_TIMEOUT": "soon"}, want: "GORUN_TIMEOUT=soon: expected seconds or"},
		"a bad value":         {file: "grace: 1\nnp: x", want: "f.yaml:2: np=x: expected a whole number", hint: "for example np: 2"},
		"a bad time in it":    {file: "timeout: soon", want: "f.yaml:1: timeout=soon: expected seconds or"},
		"the environment too": {env: map[string]string{"GORUN_NP": "four"}, file: "grace: soon", want: "GORUN_NP=four: "},
	} {
		flags, _ := NewFlags()
		file, err := parseSettings("f.yaml", []byte(tc.file), flags)
		if err == nil {
			err = SetDefaults(flags, environ.Lookup(tc.env), nil, file)
		}
		var mistake *usage.Error
		if !errors.As(err, &mistake) || !strings.HasPrefix(err.Error(), tc.want) || mistake.Hint() != tc.hint {
			t.Errorf("%s: %v, hint %q", name, err, usage.Hint(err))
		}
	}
}

func TestReadDefaults(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	xdg := write("xdg/gorun/config.yaml", "np: 1")
	home := write("home/.config/gorun/config.yaml", "np: 2")
	named := write("named.yaml", "np: 3")
	for name, tc := range map[string]struct {
		named, from string
		env         map[string]string
		want        string
	}{
		"the named one":                 {named, named, map[string]string{"HOME": dir + "/home", "XDG_CONFIG_HOME": dir + "/xdg"}, "3"},
		"the one in XDG_CONFIG_HOME":    {"", xdg, map[string]string{"HOME": dir + "/home", "XDG_CONFIG_HOME": dir + "/xdg"}, "1"},
		"the one in the home directory": {"", home, map[string]string{"HOME": dir + "/home", "XDG_CONFIG_HOME": ""}, "2"},
		"none":                          {"", dir + "/nobody/.config/gorun/config.yaml", map[string]string{"HOME": dir + "/nobody"}, "0"},
	} {
		flags, _ := NewFlags()
		file, err := ReadDefaults(tc.named, flags, environ.Lookup(tc.env))
		if err == nil {
			err = file.Apply(flags)
		}
		if err != nil || flags.Lookup("np").Value.String() != tc.want || file.name != tc.from {
			t.Errorf("%s: %+v, %v", name, file, err)
		}
	}
	for name, path := range map[string]string{
		"a named one that is not there": dir + "/nope.yaml",
		"a directory":                   dir,
		"one that is no YAML":           write("bad.yaml", "a: b: c"),
		"one with a program":            write("program.yaml", "np: 2\ncommand: ./train"),
		"one that is too long":          write("long.yaml", strings.Repeat("#", maxConfig+1)),
	} {
		var mistake *usage.Error
		flags, _ := NewFlags()
		if _, err := ReadDefaults(path, flags, environ.Lookup(nil)); !errors.As(err, &mistake) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
