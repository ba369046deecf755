package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/environ"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
)

// TestPrecedence sets flags from every source, in the order of cmd/gorun.
func TestPrecedence(t *testing.T) {
	golden.Cases(t, "testdata/precedence.txt", func(input string) (string, error) {
		words, err := usage.SplitShell(input)
		if err != nil {
			return "", err
		}
		var argv, variables []string
		var jobText, fileText string
		env := map[string]string{}
		for _, w := range words {
			switch text, isJob := strings.CutPrefix(w, "job"); {
			case isJob:
				jobText = text
			case w[0] == '{':
				fileText = w
			case w[0] == '-':
				argv = append(argv, w)
			default:
				name, value, _ := strings.Cut(w, "=")
				env[name] = value
				variables = append(variables, w)
			}
		}
		flags, o := NewFlags()
		if err := ExplainUsage(flags.Parse(argv), nil); err != nil {
			return "", err
		}
		typed := Given(flags)
		job, err := parseSettings("jobs/j.yaml", []byte(jobText), flags)
		if err == nil {
			err = job.relativeTo("jobs", "/home/ada").Apply(flags)
		}
		file, fileErr := parseSettings("f.yaml", []byte(fileText), flags)
		line, lineErr := dialect.Translate(argv, variables, dialect.Own, flags, nil)
		defaults, variablesErr := line.Defaults()
		if err = errors.Join(err, fileErr, lineErr, variablesErr); err == nil {
			err = SetDefaults(flags, environ.Lookup(env), defaults, file)
		}
		if err == nil {
			err = job.Blame(o.Check(flags.Changed("np")), typed)
		}
		check.That(t, err == nil || usage.Is(err), "%s: %v is no usage error", input, err)
		return strings.TrimSpace(given(flags, o) + " " + line.Notice()), err
	})
}

// A value that a file repeats by an alias takes no more memory than files may take.
func TestRepeatedValuesAreBounded(t *testing.T) {
	for _, text := range []string{"hosts: [&a %s%s]\n", "env: [&a %s%s]\n", "command: [&a %s%s]\n"} {
		flags, _ := NewFlags()
		long := fmt.Sprintf(text, strings.Repeat("h", maxConfig/2), strings.Repeat(", *a", 64))
		_, err := parseSettings("f", []byte(long), flags)
		check.That(t, err != nil && strings.Contains(err.Error(), "longer than"), "%s: %v", text, err)
	}
}

func TestReadDefaults(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	xdg := write("xdg/gorun/config.yaml", "np: 1")
	home := write("home/.config/gorun/config.yaml", "np: 2")
	named := write("named.yaml", "np: 3")
	must.OK(t, errors.Join(os.Mkdir(dir+"/shared", 0o777), os.Chmod(dir+"/shared", 0o777)))
	for name, tc := range map[string]struct {
		named, from string
		env         map[string]string
		want        string
	}{
		"the named one": {named, named, map[string]string{"HOME": dir + "/home", "XDG_CONFIG_HOME": dir + "/xdg"}, "3"},
		"the one in XDG_CONFIG_HOME": {"", xdg,
			map[string]string{"HOME": dir + "/home", "XDG_CONFIG_HOME": dir + "/xdg"}, "1"},
		"the one in the home directory": {"", home, map[string]string{"HOME": dir + "/home", "XDG_CONFIG_HOME": ""},
			"2"},
		"none": {"", dir + "/nobody/.config/gorun/config.yaml", map[string]string{"HOME": dir + "/nobody"}, "0"},
		"none in a home directory that others share": {"", dir + "/shared/.config/gorun/config.yaml",
			map[string]string{"HOME": dir + "/shared"}, "0"},
	} {
		flags, _ := NewFlags()
		file, err := ReadDefaults(tc.named, flags, environ.Lookup(tc.env))
		if err == nil {
			err = file.Apply(flags)
		}
		check.That(t, err == nil && flags.Lookup("np").Value.String() == tc.want && file.name == tc.from,
			"%s: %+v, %v", name, file, err)
	}
	for name, path := range map[string]string{
		"a named one that is not there": dir + "/nope.yaml",
		"a directory":                   dir,
		"one that is no YAML":           write("bad.yaml", "a: b: c"),
		"one with a program":            write("program.yaml", "np: 2\ncommand: ./train"),
		"one without an end":            "/dev/zero",
		"one that is too long":          write("long.yaml", strings.Repeat("#", maxConfig+1)),
	} {
		var mistake *usage.Error
		flags, _ := NewFlags()
		_, err := ReadDefaults(path, flags, environ.Lookup(nil))
		check.That(t, errors.As(err, &mistake) && strings.Contains(err.Error(), path), "%s: %v", name, err)
	}
}

// The variables that Kubernetes sets in every pod for a Service named gorun-FLAG are no settings,
// whatever the flag.
func TestServicesAreNoSettings(t *testing.T) {
	flags, _ := NewFlags()
	flags.VisitAll(func(f *pflag.Flag) {
		for _, name := range []string{f.Name, strings.TrimSuffix(f.Name, "-port"),
			strings.TrimSuffix(f.Name, "-host")} {
			service := "GORUN_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
			env := map[string]string{
				service + "_SERVICE_HOST": "10.0.0.1", service + "_SERVICE_PORT": "22",
				service + "_SERVICE_PORT_SSH": "22",
				service + "_PORT":             "tcp://10.0.0.1:22", service + "_PORT_22_TCP": "tcp://10.0.0.1:22",
				service + "_PORT_22_TCP_PROTO": "tcp",
				service + "_PORT_22_TCP_PORT":  "22", service + "_PORT_22_TCP_ADDR": "10.0.0.1",
			}
			fresh, _ := NewFlags()
			if err := SetDefaults(fresh, environ.Lookup(env), nil, settings{}); err != nil || len(Given(fresh)) > 0 {
				t.Errorf("a service named %s sets %v: %v", service, Given(fresh), err)
			}
		}
	})
	for value, want := range map[string]string{"2222": "", "tcp://[fd00::1]:22": "",
		"tcp://": "GORUN_SSH_PORT=tcp://: ", "tcp://host:22": "GORUN_SSH_PORT=tcp://host:22: ",
		"http://10.0.0.1:22": "GORUN_SSH_PORT=http://10.0.0.1:22: "} {
		fresh, _ := NewFlags()
		err := SetDefaults(fresh, environ.Lookup(map[string]string{"GORUN_SSH_PORT": value}), nil, settings{})
		check.That(t, (want != "" || err == nil) && (want == "" || err != nil && strings.HasPrefix(err.Error(), want)),
			"GORUN_SSH_PORT=%s: %v, want %q", value, err, want)
	}
}
