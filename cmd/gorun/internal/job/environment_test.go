package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
	"github.com/gorun/gorun/cmd/gorun/internal/exitcode"
	"github.com/gorun/gorun/cmd/gorun/internal/hosts"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/documents"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/plan"
)

// optionsOf reads flags as gorun does.
func optionsOf(typed string) (dialect.Line, *settings.Options, error) {
	flags, o := settings.NewFlags()
	line, err := dialect.Translate(strings.Fields(typed), nil, dialect.Own, flags, nil)
	if err == nil {
		err = flags.Parse(line.Args)
	}
	return line, o, err
}

func TestEnvironmentFlags(t *testing.T) {
	environ := []string{"A=1", "AB=2", "B=3", "HOME=/h", "PATH=/bin", "MY_TOKEN=s", "=odd"}
	golden.Cases(t, "testdata/environment.txt", func(typed string) (string, error) {
		_, o, err := optionsOf(typed)
		if err != nil {
			return "", err
		}
		env, err := forwardEnv(environ, o)
		anywhere, here := notInherited(environ, env, o)
		return fmt.Sprintf("%s; not anywhere %v; not here %v", strings.Join(env.Set, " "), anywhere, here), err
	})
}

func TestDryRunText(t *testing.T) {
	golden.Cases(t, "testdata/dryrun.txt", func(typed string) (string, error) {
		_, o, err := optionsOf(typed)
		if err != nil {
			return "", err
		}
		opts := launcher.Options{Programs: []launcher.Program{{Argv: []string{"a"}, Wdir: "/w", Ranks: 1}},
			Settings: launcher.Settings{Binding: o.Binding()}, Env: []string{"B=secret"}}
		text, whole := strings.CutSuffix(NewDryRun(o, launcher.Plan{}, opts, hosts.Selection{Source: "-H"},
			nil).Text(o), "program    [\"a\"]\ndirectory  /w\nvariables  B\n")
		check.That(t, whole, "%s: %q", typed, text)
		return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; "), nil
	})
	listed := []dryHost{{Host: "f0"}}
	for i := range 6 {
		listed = append(listed, dryHost{Host: fmt.Sprintf("f%d", i+1), GPUs: 4})
	}
	for _, tc := range []struct {
		hosts         int
		perRank, want string
	}{
		{1, "auto", ""},
		{2, "auto", "auto, of 4 on f1, assigned on the hosts"},
		{3, "2", "2 per rank, of 4 on f1, 4 on f2, assigned on the hosts"},
		{7, "2", "2 per rank, of 4 on f1, 4 on f2, 4 on f3, 4 on f4, on 2 more hosts, assigned on the hosts"},
		{7, "none", "left alone"},
	} {
		check.Equal(t, (DryRun{Hosts: listed[:tc.hosts], GPUsPerRank: tc.perRank}).GpusText(false), tc.want)
	}
}

func TestEnvFile(t *testing.T) {
	text := "\ufeffA=1\r\n\n  # no\nB= two words # all of it \nexport C=$HOME\nD\nE=\"q\"\nF=a=b\nG=\n"
	exports, warnings, err := parseEnvFile("f", text)
	want := []string{"A=1", "B= two words # all of it ", "C=$HOME", "D", `E="q"`, "F=a=b", "G="}
	check.That(t, err == nil && slices.Equal(exports, want), "%q, %v; want %q", exports, err, want)
	check.That(t, slices.Equal(warnings, []string{"f:7: the quotes around the value of E are part of it"}),
		"%q", warnings)
	for _, text := range []string{"=1", "A=1\na b=2", "A B", "A=1\x00"} {
		exports, _, err := parseEnvFile("f", text)
		check.That(t, exitcode.IsUsage(err) && strings.HasPrefix(err.Error(), "f:") && usage.Hint(err) != "",
			"%q: %q, %v", text, exports, err)
	}
	for _, text := range []string{"TOKEN = hunter2", "TOKEN=hunter2\x00", "KEY={\n \"password\": \"hunter2\"\n}"} {
		_, _, err := parseEnvFile("f", text)
		check.That(t, err != nil && !strings.Contains(err.Error(), "hunter2"), "%q: %v", text, err)
	}
}

// stayHere reports the names between backquotes in a section of a document that reach the ranks
// nevertheless.
func stayHere(t *testing.T, document, begin, end string, least int) (text string) {
	t.Helper()
	text = documents.Text(t, "../../../..", document)
	_, section, _ := strings.Cut(text, begin)
	section, _, _ = strings.Cut(section, end)
	names := strings.Split(section, "`")
	for i := 1; i < len(names); i += 2 {
		name := strings.ReplaceAll(names[i], "*", "E2E")
		switch {
		case name == "_":
		case strings.HasPrefix(name, "_"): // a suffix
			name = "E2E" + name
		case strings.HasSuffix(name, "_"):
			name += "E2E"
		}
		if env, err := plan.ForwardEnv([]string{name + "=1", "E2E_PLAIN=1"}, nil); err != nil ||
			!slices.Equal(env.Set, []string{"E2E_PLAIN=1"}) {
			t.Errorf("%s: %s goes to the ranks: %q, %v", document, name, env.Set, err)
		}
	}
	check.That(t, len(names)/2 >= least, "%s: %d names in %q", document, len(names)/2, section)
	return text
}

// Variables that the documents exclude do not reach the ranks, and docs/environment.md lists all
// variables of a rank.
func TestDocumentsOnTheEnvironment(t *testing.T) {
	stayHere(t, "docs/migrating.md", "## The environment\n", "\n| to | type |", 40)
	text := stayHere(t, "docs/environment.md", "## What stays here\n", "\n\n`PATH`", 75)
	for _, name := range rankenv.Names() {
		check.That(t, strings.Contains(text, "`"+name+"`"), "docs/environment.md lacks %s", name)
	}
}

func TestVariablesOfANodeAreNotForwarded(t *testing.T) {
	env := []string{"A=1", "SLURMD_NODENAME=n1", "SLURM_JOB_ID=7", "SLURM_STEP_ID=1", "SLURM_CPUS_ON_NODE=2",
		"SLURM_NTASKS=3"}
	got := ForRanks(env, nil)
	check.That(t, slices.Equal(got, []string{"A=1", "SLURM_JOB_ID=7", "SLURM_NTASKS=3"}), "got %q", got)
	got = ForRanks(env, []string{"SLURMD_NODENAME", "SLURM_STEP*", "SLURM_CPUS_ON_NODE=2"})
	check.That(t, slices.Equal(got, env), "asked for: got %q", got)
}
