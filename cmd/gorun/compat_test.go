package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/environ"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
)

// TestMistakes runs wrong command lines and compares the messages with testdata/mistakes.txt.
func TestMistakes(t *testing.T) {
	environ.Quiet(t)
	golden.Cases(t, "testdata/mistakes.txt", func(typed string) (string, error) {
		argv, err := usage.SplitShell(typed)
		if err != nil {
			return "", err
		}
		var out, complaint bytes.Buffer
		code := runCLI(argv, nil, &out, &complaint, nil)
		check.That(t, code == 2 && out.Len() == 0 && strings.Count(complaint.String(), "gorun: error: ") == 1,
			"%q: code %d, stdout %q, stderr %q", argv, code, &out, &complaint)
		return strings.ReplaceAll(strings.TrimSuffix(complaint.String(), "\n"), "\ngorun: ", " | gorun: "), nil
	})
}

// Each flag of each command is named when its last letter is left out.
func TestMistypedFlagsOfCommands(t *testing.T) {
	environ.Quiet(t)
	root := quietCall("gorun").root
	for _, cmd := range root.Commands() {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			typed := f.Name[:len(f.Name)-1]
			if len(typed) < 2 || root.Flags().Lookup(f.Name) != nil { // those of runs have other rules
				return
			}
			_, err := quietCall("gorun", cmd.Name(), "--"+typed).parse()
			check.Equal(t, usage.Hint(err), "did you mean --"+f.Name+"?", "gorun", cmd.Name(), "--"+typed)
		})
	}
}

// seen is the request of a command line.
func seen(t *testing.T, argv ...string) (o settings.Options, flags *pflag.FlagSet, program []string,
	line dialect.Line) {
	t.Helper()
	call := quietCall(argv...)
	chosen, err := call.parse()
	must.OK(t, err, argv)
	return chosen.(*runCommand).o, call.flags, call.args, call.line
}

// quietCall is a call of gorun whose output nobody sees.
func quietCall(argv ...string) *invocation {
	return newInvocation(argv, nil, io.Discard, io.Discard, nil)
}

func mustDialect(t *testing.T, program string) dialect.Dialect {
	t.Helper()
	return must.Get(dialect.Choose(program, func(string) (string, bool) { return "", false }))(t)
}

func TestHelp(t *testing.T) {
	environ.Quiet(t)
	said := func(argv ...string) string {
		var out, complaint bytes.Buffer
		code := runCLI(append([]string{"gorun"}, argv...), nil, &out, &complaint, nil)
		check.That(t, code == 0 && complaint.Len() <= 0, "%q: code %d, %s", argv, code, &complaint)
		return out.String()
	}
	all := said("help", "compat")
	for _, words := range []string{"--np, -n, -c VALUE", "-genv, -env NAME=VALUE", "--fusion-threshold-mb VALUE",
		"--ntasks-per-node VALUE", "--nproc-per-node VALUE", "plm_rsh_agent"} {
		check.That(t, strings.Contains(all, words), "help compat lacks %q", words)
	}
	one := said("compat", "srun")
	check.That(t, strings.Contains(one, "--ntasks-per-node VALUE") && !strings.Contains(one, "--fusion-threshold-mb"),
		"compat srun:\n%s", golden.Clip(one))
	var o settings.Options
	help := said("--help")
	for _, g := range o.Groups() {
		check.That(t, strings.Contains(help, "\n"+g.Title+":\n"), "--help lacks the group %q", g.Title)
		for _, f := range g.Flags {
			check.That(t, strings.Count(help, "--"+f.Name+" ")+strings.Count(help, "--"+f.Name+"[") != 0,
				"--help lacks --%s", f.Name)
		}
	}
	check.That(t, !strings.Contains(help, "\nFlags:\n"), "flags without a group:\n%s", help)
}

// The help of every command fits the screen, and has no default that says nothing.
func TestHelpOfCommands(t *testing.T) {
	environ.Quiet(t)
	for _, name := range append(visible(quietCall("gorun").root), "") {
		if name == "compat" || name == "completion" {
			continue // a table, and cobra's own text
		}
		argv := []string{"gorun", name, "--help"}
		if name == "" {
			argv = []string{"gorun", "--help"}
		}
		var out bytes.Buffer
		check.Equal(t, runCLI(argv, nil, &out, io.Discard, nil), 0, argv, "code")
		for line := range strings.Lines(out.String()) {
			check.That(t, len(line)-1 <= helpWidth || strings.Contains(line, "  gorun "),
				"%q: %d columns: %s", argv, len(line)-1, line)
		}
		for _, nothing := range []string{"(default 0", "(default false", "(default [", "(default \"\"", "(default )"} {
			check.That(t, !strings.Contains(out.String(), nothing), "%q has %s...", argv, nothing)
		}
	}
	help := map[string]string{}
	for _, name := range []string{"hosts", "cp", "doctor", "bench"} {
		var out bytes.Buffer
		runCLI([]string{"gorun", name, "--help"}, nil, &out, io.Discard, nil)
		help[name] = out.String()
	}
	for flag, want := range map[string]string{"hostfile": "hosts cp doctor bench",
		"network-interface": "cp doctor bench", "export": "doctor bench", "timeout": "bench", "stdin": ""} {
		var listed []string
		for _, name := range []string{"hosts", "cp", "doctor", "bench"} {
			if strings.Contains(help[name], "--"+flag+" ") {
				listed = append(listed, name)
			}
		}
		got := strings.Join(listed, " ")
		check.That(t, got == want, "--%s is listed by %q, want %q", flag, got, want)
	}
}
