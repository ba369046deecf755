package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func lookupIn(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}
}

// TestDefaultsPrecedence sets -np in every combination of places.
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
		flags, o := flagSet()
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
		// An empty variable says nothing, as if it were not set.
		if err := setDefaults(flags, lookupIn(map[string]string{"GORUN_NP": tc.env, "GORUN_HOSTS": ""}), nil, file, "f"); err != nil {
			t.Fatal(err)
		}
		if o.np != tc.want || flags.Changed("np") != tc.set {
			t.Errorf("%+v: np is %d, set %v", tc, o.np, flags.Changed("np"))
		}
	}
}

func TestDefaultsOfEveryKind(t *testing.T) {
	flags, o := flagSet()
	env := map[string]string{"GORUN_SSH_CONFIG": "c", "GORUN_NO_OVERSUBSCRIBE": "true", "GORUN_EXPORT": "A", "GORUN_START_TIMEOUT": "1h30m", "GORUN_VERBOSE": "2",
		"GORUN_RANK": "7", "GORUN_CONFIG": "not from here", "GORUN_HELP": "true"}
	file := map[string]string{"host-keys": "accept-new", "grace": "2.5", "tag-output": "true", "ssh-identity-file": "k", "ssh-port": "2222"}
	if err := setDefaults(flags, lookupIn(env), nil, file, "f"); err != nil {
		t.Fatal(err)
	}
	if o.sshConfig != "c" || !o.noOversubscribe || fmt.Sprint(o.exports, o.identities) != "[A] [k]" || time.Duration(o.startTimeout) != 90*time.Minute ||
		o.verbose != 2 || o.hostKeys != "accept-new" || time.Duration(o.grace) != 2500*time.Millisecond || !o.tagOutput || o.sshPort != 2222 || o.config != "" {
		t.Errorf("%+v", *o)
	}
}

func TestDefaultsThatMakeNoSense(t *testing.T) {
	for name, tc := range map[string]struct {
		env, file  map[string]string
		want, hint string
	}{
		"a bad variable":       {env: map[string]string{"GORUN_NP": "four"}, want: "GORUN_NP=four: want a whole number"},
		"a bad time":           {env: map[string]string{"GORUN_TIMEOUT": "soon"}, want: "GORUN_TIMEOUT=soon: want seconds, or", hint: ""},
		"a bad value":          {file: map[string]string{"np": "x"}, want: "f.yaml: np=x: want a whole number"},
		"a setting misspelled": {file: map[string]string{"hostfle": "x"}, want: `f.yaml: there is no setting "hostfle"`, hint: "did you mean hostfile?"},
		"a dialect, too late":  {file: map[string]string{"dialect": "srun"}, want: "f.yaml: dialect has no effect here", hint: "set GORUN_DIALECT, or start gorun by another name"},
		"no setting at all":    {file: map[string]string{"zzzzzzzz": "x"}, want: `f.yaml: there is no setting "zzzzzzzz"`, hint: "the keys are the long names of the flags: see gorun --help"},
		"the first of two":     {file: map[string]string{"zzzzzzzz": "x", "aaaaaaaaa": "y"}, want: `f.yaml: there is no setting "aaaaaaaaa"`, hint: "the keys are the long names of the flags: see gorun --help"},
	} {
		flags, _ := flagSet()
		err := setDefaults(flags, lookupIn(tc.env), nil, tc.file, "f.yaml")
		var usage *usageError
		if !errors.As(err, &usage) || !strings.HasPrefix(err.Error(), tc.want) || usage.Hint() != tc.hint {
			t.Errorf("%s: %v, hint %q", name, err, hint(err))
		}
	}
}

func TestParseConfig(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"":                          {},
		"# nothing\n":               {},
		"np: 4\n":                   {"np": "4"},
		"hosts: a:2,b:2\n":          {"hosts": "a:2,b:2"},
		"grace: 2.5\ndry-run: true": {"grace": "2.5", "dry-run": "true"},
		"start_timeout: 90s\n":      {"start-timeout": "90s"},
		"{np: 4, hosts: \"a\"}":     {"np": "4", "hosts": "a"},
		"wdir: ''\n":                {"wdir": ""},
	} {
		got, err := parseConfig([]byte(text))
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"np", "- np", "np: [4]", "np: {a: 4}", "np:", "np: ~", "np: 4\nnp: 5\n", "a: b: c", "\x00", "np: 2020-01-01", "1: 2\n? [a]\n: b"} {
		if got, err := parseConfig([]byte(text)); err == nil {
			t.Errorf("%q was read as %q", text, got)
		}
	}
}

// FuzzConfig checks that no file breaks gorun, and that what is read can be set or is
// refused as a mistake of the user's.
func FuzzConfig(f *testing.F) {
	f.Add([]byte("np: 4\nhosts: a:2\ngrace: 1e3\nno_oversubscribe: yes\n"))
	f.Add([]byte("a: &a [*a]\n<<: *a"))
	f.Add([]byte("np: 0x10\ntimeout: .inf\nverbose: -1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		values, err := parseConfig(text)
		if err != nil {
			return
		}
		flags, o := flagSet()
		err = setDefaults(flags, lookupIn(nil), nil, values, "f")
		var usage *usageError
		if err != nil && !errors.As(err, &usage) {
			t.Fatalf("%q: %v", values, err)
		}
		if err == nil {
			_ = o.check(flags.Changed("np"))
		}
	})
}

func TestReadConfig(t *testing.T) {
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
		"none":                          {"", dir + "/nobody/.config/gorun/config.yaml", map[string]string{"HOME": dir + "/nobody"}, ""},
	} {
		values, from, err := readConfig(tc.named, lookupIn(tc.env))
		if err != nil || values["np"] != tc.want || from != tc.from {
			t.Errorf("%s: %q from %s, %v", name, values, from, err)
		}
	}
	for name, path := range map[string]string{
		"a named one that is not there": dir + "/nope.yaml",
		"a directory":                   dir,
		"one that is no YAML":           write("bad.yaml", "a: b: c"),
		"one that is too long":          write("long.yaml", strings.Repeat("#", maxConfig+1)),
	} {
		var usage *usageError
		if _, _, err := readConfig(path, lookupIn(nil)); !errors.As(err, &usage) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
