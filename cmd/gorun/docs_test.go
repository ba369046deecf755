package main

import (
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/documents"
	"github.com/gorun/gorun/internal/test/environ"
	"github.com/gorun/gorun/internal/usage"
)

// TestInlineCommands parses the commands in the documents' sentences and tables.
func TestInlineCommands(t *testing.T) {
	environ.Quiet(t)
	spans := regexp.MustCompile("`[^`\n]+`")
	found := 0
	// The first word of a command line of gorun, or in some documents of another launcher.
	commands := regexp.MustCompile(`^(gorun|mpirun|mpiexec|horovodrun|torchrun|srun) .`)
	own := []string{"README.md", "docs/quickstart.md", "docs/hosts.md", "docs/output.md", "docs/exit-codes.md",
		"docs/signals.md"}
	for _, name := range documents.Names(t, "../..") {
		for _, span := range spans.FindAllString(documents.Prose(documents.Text(t, "../..", name)), -1) {
			typed, _, _ := strings.Cut(strings.Trim(span, "`"), `\|`)
			typed = strings.NewReplacer("...", "", "…", "").Replace(typed)
			flag := slices.Contains(own, name) && strings.HasPrefix(typed, "-")
			if flag {
				typed = "gorun " + typed
			}
			foreign := !strings.HasPrefix(typed, "gorun ") && name != "README.md" && name != "docs/quickstart.md" &&
				name != "docs/migrating.md"
			if !commands.MatchString(typed) || foreign || strings.HasPrefix(typed, "gorun __") {
				continue
			}
			found++
			if err := readTyped(t, typed, flag); err != nil {
				t.Errorf("%s: %s: %v; %s", name, span, err, usage.Hint(err))
			}
		}
	}
	if found < 30 {
		t.Errorf("found %d commands", found)
	}
}

// readTyped parses a command line or a single flag. The program and the last flag's value may be
// missing.
func readTyped(t *testing.T, typed string, flag bool) error {
	t.Helper()
	argv, err := usage.SplitShell(typed)
	if err != nil {
		return err
	}
	root := newRoot(func(flags *pflag.FlagSet, o *settings.Options, _ []string) error {
		_, err := hostfile.ParseList(o.Hosts)
		if o.Hosts == "" {
			err = nil
		}
		return errors.Join(err, o.Check(flags.Changed("np")))
	})
	benchmarks := newBench(nil)
	root.AddCommand(benchmarks)
	others := newJobs(jobsIO{out: io.Discard, errs: io.Discard})
	root.AddCommand(others...)
	root.SetOut(io.Discard)
	if len(argv) < 2 {
		return nil // gorun ... program
	}
	var line dialect.Line
	switch args := argv[1:]; {
	case slices.Contains([]string{"help", "completion", "man", "compat", "version"}, args[0]) && argv[0] == "gorun":
		return nil // takes no flags
	case slices.ContainsFunc(others, func(c *cobra.Command) bool { return c.Name() == args[0] && argv[0] == "gorun" }):
		command, rest, err := root.Find(args)
		if err == nil {
			err = command.ParseFlags(rest)
		}
		return err
	case args[0] == "bench":
		if line, err = dialect.TranslateWords(args[1:], benchmarks.Flags()); err == nil {
			err = benchmarks.ParseFlags(line.Args)
		}
		return err
	case flag:
		_, err = dialect.Translate(append(args, "1", "true"), mustDialect(t, argv[0]), root.Flags(), nil)
		return err
	}
	if line, err = dialect.Translate(append(argv[1:], "true"), mustDialect(t, argv[0]), root.Flags(), nil); err != nil {
		return err
	}
	root.SetArgs(line.Args)
	return root.Execute()
}

// Both columns of docs/migrating.md's table of lines request the same job.
func TestMigrationGuideColumnsMeanTheSameJob(t *testing.T) {
	environ.Quiet(t)
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `(gorun [^`]+)` \\|$")
	rows := 0
	for _, pair := range row.FindAllStringSubmatch(documents.Text(t, "../..", "docs/migrating.md"), -1) {
		var jobs [2]string
		for i, typed := range pair[1:] {
			argv, err := usage.SplitShell(typed)
			if err != nil {
				t.Fatal(err)
			}
			if argv[0] == "torchrun" {
				argv = slices.Insert(argv, 1, "-H", "f1,f2")
			}
			_, _, program, line := seen(t, argv...)
			flags := line.Args[:len(line.Args)-len(program)]
			slices.Sort(flags)
			jobs[i] = strings.Join(append(flags, program...), " ")
		}
		if rows++; jobs[0] != jobs[1] {
			t.Errorf("%s\n%s\n%s", pair[0], jobs[0], jobs[1])
		}
	}
	if rows < 8 {
		t.Errorf("%d rows", rows)
	}
}
