package main

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/documents"
	"github.com/gorun/gorun/internal/test/environ"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
)

// TestInlineCommands parses the commands in the documents' sentences and tables.
func TestInlineCommands(t *testing.T) {
	environ.Quiet(t)
	spans := regexp.MustCompile("`[^`\n]+`")
	found := 0
	// The first word of a command line of gorun, or in some documents of another launcher.
	commands := regexp.MustCompile(`^(gorun|mpirun|mpiexec|horovodrun|torchrun|srun) .`)
	own := []string{"README.md", "docs/tasks.md", "docs/quickstart.md", "docs/hosts.md", "docs/output.md",
		"docs/exit-codes.md", "docs/signals.md"}
	for _, name := range documents.Names(t, "../..") {
		for _, span := range spans.FindAllString(documents.Prose(documents.Text(t, "../..", name)), -1) {
			typed, _, _ := strings.Cut(strings.Trim(span, "`"), `\|`)
			typed = strings.NewReplacer("...", "", "…", "").Replace(typed)
			flag := slices.Contains(own, name) && strings.HasPrefix(typed, "-")
			if flag {
				typed = "gorun " + typed
			}
			foreign := !strings.HasPrefix(typed, "gorun ") && name != "README.md" && name != "docs/quickstart.md" &&
				name != "docs/migrating.md" && !strings.HasPrefix(name, "docs/from-")
			if !commands.MatchString(typed) || foreign || strings.HasPrefix(typed, "gorun __") {
				continue
			}
			found++
			err := readTyped(t, typed, flag)
			check.That(t, err == nil, "%s: %s: %v; %s", name, span, err, usage.Hint(err))
		}
	}
	check.That(t, found >= 30, "found %d commands", found)
}

// readTyped parses a command line or a single flag. The program and the last flag's value may be
// missing.
func readTyped(t *testing.T, typed string, flag bool) error {
	t.Helper()
	argv, err := usage.SplitShell(typed)
	if err != nil {
		return err
	}
	if len(argv) < 2 {
		return nil // gorun ... program
	}
	call := quietCall(argv...)
	names := commandNames(call.root)
	switch command := commandOf(argv[1:], names, call.root); {
	case argv[0] != "gorun" || !slices.Contains(names, argv[1]):
	case command != nil:
		line, err := dialect.TranslateWords(argv[2:], nil, command.Flags())
		if err == nil {
			err = command.ParseFlags(line.Args)
		}
		return err
	default:
		command, rest, err := call.root.Find(argv[1:])
		if err == nil && !command.DisableFlagParsing {
			err = command.ParseFlags(rest)
		}
		return err
	}
	if flag {
		_, err = dialect.Translate(append(argv[1:], "1", "true"), nil, mustDialect(t, argv[0]), call.root.Flags(), nil)
		return err
	}
	call.argv = append(argv, "true")
	chosen, err := call.parse()
	run, isRun := chosen.(*runCommand)
	if err != nil || !isRun { // --help and --version start nothing
		return err
	}
	if run.o.Hosts != "" {
		_, err = hostfile.ParseList(run.o.Hosts)
	}
	return errors.Join(err, run.o.Check(call.flags.Changed("np")))
}

// Both columns of the tables of lines, in the pages for users of other launchers, request the same
// job.
func TestMigrationGuideColumnsMeanTheSameJob(t *testing.T) {
	environ.Quiet(t)
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `(gorun [^`]+)` \\|$")
	text := documents.Text(t, "../..", "docs/migrating.md")
	for _, name := range documents.Names(t, "../..") {
		if strings.HasPrefix(name, "docs/from-") {
			text += documents.Text(t, "../..", name)
		}
	}
	rows := 0
	for _, pair := range row.FindAllStringSubmatch(text, -1) {
		var jobs [2]string
		for i, typed := range pair[1:] {
			argv := must.Get(usage.SplitShell(typed))(t)
			switch argv[0] {
			case "torchrun":
				argv = slices.Insert(argv, 1, "-H", "f1,f2")
			case "accelerate":
				argv = slices.Insert(argv, 2, "-H", "f1,f2")
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
	check.That(t, rows >= 20, "%d rows", rows)
}
