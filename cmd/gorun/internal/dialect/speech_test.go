package dialect_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/golden"
)

func TestHintsInWordsOfLaunchers(t *testing.T) {
	golden.Cases(t, "testdata/speech.txt", func(typed string) (string, error) {
		program, hint, _ := strings.Cut(typed, ": ")
		return speechOf(program).Hint(hint), nil
	})
}

func speechOf(program string) *dialect.Speech {
	flags, _ := settings.NewFlags()
	of, _ := dialect.Named(program)
	return dialect.NewSpeech(program, of, flags, []string{"doctor", "help", "hosts", "gpus", "logs", "stacks"})
}

// The words in which a hint names a flag of gorun mean this flag to the launcher under whose name
// they are typed.
func TestHintsMeanTheSameToLaunchers(t *testing.T) {
	samples := map[string][]string{
		"ppn":                      {"2", "auto", "1:gpu", "2:socket"},
		"launcher":                 {"ssh", "srun", "system-ssh", "rsh", "local"},
		"hosts":                    {"f1:2,f2"},
		"export":                   {"NAME", "NAME=value"},
		"mpi":                      {"ompi4"},
		"rank-by":                  {"node"},
		"prefix":                   {"rank", "none"},
		"map-by":                   {"node", "socket"},
		"gpus-per-rank":            {"1", "none"},
		"max-restarts":             {"3"},
		"stdin":                    {"all", "none"},
		"keep-going":               {"codes"},
		"bind-to":                  {"none", "core"},
		"timeout":                  {"5m"},
		"blacklist-cooldown-range": {"10,60"},
		"network-interface":        {"eth0"},
	}
	// Words that launchers have, too, in another meaning, and that no hint names there.
	others := map[string][]string{
		"mpirun":        {"debug", "launch-agent", "tag-output"},
		"mpiexec.hydra": {"debug", "map-by"},
		"horovodrun":    {"mpi", "blacklist-cooldown-range"},
		"accelerate":    {"config-file", "debug", "quiet"},
	}
	letters := map[string]string{"hosts": "-H", "export": "-x", "np": "-np"}
	flags, _ := settings.NewFlags()
	for _, l := range dialect.Launchers() {
		flags.VisitAll(func(f *pflag.Flag) {
			if f.Name == "dialect" || f.Name == "verbose" || slices.Contains(others[l.Name], f.Name) {
				return
			}
			values := samples[f.Name]
			if values == nil {
				values = []string{"7"}
			}
			for _, name := range slices.Compact([]string{"--" + f.Name, cmp.Or(letters[f.Name], "--"+f.Name)}) {
				for _, value := range values {
					hint := name + " " + value
					want := "--" + f.Name + "=" + value
					switch {
					case f.Value.Type() == "bool":
						hint = name
						want = "--" + f.Name
					case f.NoOptDefVal != "":
						hint = name + "=" + value
					}
					said := speechOf(l.Name).Hint("write " + hint)
					words := append(strings.Fields(said)[1:], "./x")
					line, err := dialect.Translate(words, nil, l.Dialect, flags, nil)
					check.That(t, err == nil && slices.Contains(line.Args, want),
						"%s: %q for %s is %q, %v", l.Name, said, hint, line.Args, err)
				}
			}
		})
	}
}
