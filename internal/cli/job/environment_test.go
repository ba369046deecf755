package job

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/cli/dialect"
	"github.com/gorun/gorun/internal/cli/exitcode"
	"github.com/gorun/gorun/internal/cli/settings"
	"github.com/gorun/gorun/internal/cli/usage"
	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/launcher/plan"
)

func TestEnvironmentFlags(t *testing.T) {
	environ := []string{"A=1", "AB=2", "B=3", "HOME=/h", "PATH=/bin", "MY_TOKEN=s", "=odd"}
	for _, tc := range []struct {
		argv, set, anywhere, here string
	}{
		{"", "A=1 AB=2 B=3 PATH=/bin", "", ""},
		{"-x MY_TOKEN -x C=4", "A=1 AB=2 B=3 C=4 MY_TOKEN=s PATH=/bin", "", ""},
		{"--unset-env A", "AB=2 B=3 PATH=/bin", "A", ""},
		{"--unset-env A* -x AB", "AB=2 B=3 PATH=/bin", "A", ""},
		{"--unset-env A* -x A*", "B=3 PATH=/bin", "A AB", ""},
		{"--unset-env *", "", "A AB B MY_TOKEN", ""},
		{"--unset-env ELSEWHERE --unset-env PATH", "A=1 AB=2 B=3", "ELSEWHERE", ""},
		{"--no-env", "", "", "A AB B MY_TOKEN"},
		{"--no-env -x A* -x C=4", "A=1 AB=2 C=4", "", "B MY_TOKEN"},
		{"--no-env -x HOME", "HOME=/h", "", "A AB B MY_TOKEN"},
		{"--no-env --unset-env AB -x A*", "A=1", "AB", "B MY_TOKEN"},
	} {
		flags, o := settings.NewFlags()
		line, err := dialect.Translate(strings.Fields(tc.argv), dialect.Own, flags, nil)
		if err == nil {
			err = flags.Parse(line.Args)
		}
		if err != nil {
			t.Fatal(err)
		}
		env, err := forwardEnv(environ, o)
		if err != nil || strings.Join(env.Set, " ") != tc.set {
			t.Errorf("%s: %q, %v; want %s", tc.argv, env.Set, err, tc.set)
		}
		if anywhere, here := leftOut(environ, env, o); strings.Join(anywhere, " ") != tc.anywhere || strings.Join(here, " ") != tc.here {
			t.Errorf("%s: %q and %q are taken away, want %s and %s", tc.argv, anywhere, here, tc.anywhere, tc.here)
		}
	}
}

func TestEnvFile(t *testing.T) {
	text := "\ufeffA=1\r\n\n  # no\nB= two words # all of it \nexport C=$HOME\nD\nE=\"q\"\nF=a=b\nG=\n"
	exports, warnings, err := parseEnvFile("f", strings.NewReader(text))
	if want := []string{"A=1", "B= two words # all of it ", "C=$HOME", "D", `E="q"`, "F=a=b", "G="}; err != nil || !slices.Equal(exports, want) {
		t.Errorf("%q, %v; want %q", exports, err, want)
	}
	if !slices.Equal(warnings, []string{"f:7: the quotes around the value of E are part of it"}) {
		t.Errorf("%q", warnings)
	}
	for _, text := range []string{"=1", "A=1\na b=2", "A B", "A=1\x00"} {
		if exports, _, err := parseEnvFile("f", strings.NewReader(text)); !exitcode.IsUsage(err) || !strings.HasPrefix(err.Error(), "f:") || usage.Hint(err) == "" {
			t.Errorf("%q: %q, %v", text, exports, err)
		}
	}
}

// The variables that the guide lists do not reach the ranks.
func TestMigrationGuideOnTheEnvironment(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "migrating.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## The environment\n")
	section, _, _ = strings.Cut(section, "\n| to | type |")
	names := 0
	for i, part := range strings.Split(section, "`") {
		if i%2 == 0 {
			continue
		}
		names++
		name := part
		switch {
		case strings.HasPrefix(part, "_"): // a suffix
			name = "E2E" + part
		case strings.HasSuffix(part, "_"):
			name = part + "E2E"
		}
		if env, err := plan.ForwardEnv([]string{name + "=1", "E2E_PLAIN=1"}, nil); err != nil || !slices.Equal(env.Set, []string{"E2E_PLAIN=1"}) {
			t.Errorf("%s goes to the ranks: %q, %v", name, env.Set, err)
		}
	}
	if names < 40 {
		t.Errorf("%d names in %q", names, section)
	}
}

// Variables that docs/environment.md excludes do not reach the ranks, and it lists all variables of a rank.
func TestEnvironmentDocument(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "environment.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## What stays here\n")
	section, _, _ = strings.Cut(section, "\n\n`PATH`")
	names := strings.Split(section, "`")
	for i := 1; i < len(names); i += 2 {
		name := strings.ReplaceAll(names[i], "*", "E2E")
		env, err := plan.ForwardEnv([]string{name + "=1", "E2E_PLAIN=1"}, nil)
		if err != nil || !slices.Equal(env.Set, []string{"E2E_PLAIN=1"}) {
			t.Errorf("%s goes to the ranks: %q, %v", name, env.Set, err)
		}
	}
	if len(names) < 150 {
		t.Errorf("%d names in %q", len(names)/2, section)
	}
	for _, name := range rankenv.Names() {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("it lacks %s", name)
		}
	}
}

func TestRanksAreNotToldOfOtherNodes(t *testing.T) {
	env := []string{"A=1", "SLURMD_NODENAME=n1", "SLURM_JOB_ID=7", "SLURM_STEP_ID=1", "SLURM_CPUS_ON_NODE=2", "SLURM_NTASKS=3"}
	if got := ForRanks(env, nil); !slices.Equal(got, []string{"A=1", "SLURM_JOB_ID=7", "SLURM_NTASKS=3"}) {
		t.Errorf("got %q", got)
	}
	if got := ForRanks(env, []string{"SLURMD_NODENAME", "SLURM_STEP*", "SLURM_CPUS_ON_NODE=2"}); !slices.Equal(got, env) {
		t.Errorf("asked for: got %q", got)
	}
}
