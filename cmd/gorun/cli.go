package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
	"github.com/gorun/gorun/cmd/gorun/internal/exitcode"
	"github.com/gorun/gorun/cmd/gorun/internal/kept"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/sight/control"
)

// command is one of gorun's commands. The flag parser has filled in its options when it runs.
type command interface {
	Run(ctx context.Context) (code int, err error)
}

// invocation is one call of gorun: the user's words, the streams, and the command that they choose.
type invocation struct {
	argv    []string // gorun's name and arguments
	stdin   *os.File
	stdout  io.Writer
	stderr  io.Writer
	plain   io.Writer // stdout for everything but the ranks' output
	console *ui.UI
	waiting *os.File // the pipe to the gorun that detaches this job; nil: the user started this one
	keeping bool     // only keep the hosts of a run connected

	root   *cobra.Command
	line   dialect.Line
	chosen command  // nil: the parser has answered, for example with help
	args   []string // arguments of the chosen command
	flags  *pflag.FlagSet
}

// runCLI runs gorun with argv, its name and arguments, and returns the exit code. waiting is the
// pipe to the gorun that detaches this job; nil: this one was started by the user.
func runCLI(argv []string, stdin *os.File, stdout, stderr io.Writer, waiting *os.File) (code int) {
	call := newInvocation(argv, stdin, stdout, stderr, waiting)
	chosen, err := call.parse()
	if err == nil && chosen != nil {
		code, err = chosen.Run(context.Background())
	}
	if err != nil {
		call.console.Report(settings.ExplainUsage(err, call.line.Typed))
		return exitcode.Of(err)
	}
	return code
}

func newInvocation(argv []string, stdin *os.File, stdout, stderr io.Writer, waiting *os.File) *invocation {
	deadline := ui.NewWriteDeadline()
	call := &invocation{
		argv:    argv,
		stdin:   stdin,
		stdout:  stdout,
		stderr:  stderr,
		plain:   ui.Plain(stdout),
		console: &ui.UI{W: &ui.DeadlineWriter{W: stderr, Deadline: deadline}, Deadline: deadline},
		waiting: waiting,
	}
	if len(argv) > 1 && argv[1] == kept.Command {
		call.keeping = true
		call.argv = slices.Delete(slices.Clone(argv), 1, 2)
	}
	call.root = newRoot(call)
	return call
}

// isPlugin reports whether gorun is a command of kubectl, which then reaches the pods.
func (call *invocation) isPlugin() bool { return filepath.Base(call.argv[0]) == "kubectl-gorun" }

// parse chooses the command and fills in its options from the command line.
func (call *invocation) parse() (chosen command, err error) {
	call.line, err = call.translate()
	call.console.Speak = dialect.NewSpeech(call.argv[0], call.line.Dialect, call.root.Flags(),
		commandNames(call.root)).Hint
	if err != nil {
		return nil, err
	}
	call.root.SetArgs(append([]string{}, call.line.Args...)) // nil would mean os.Args
	err = call.root.Execute()
	return call.chosen, err
}

// translate translates the command line to gorun's own flags.
func (call *invocation) translate() (dialect.Line, error) {
	commands := commandNames(call.root)
	if byName, _ := dialect.Named(filepath.Base(call.argv[0])); byName != dialect.Own {
		commands = nil // mpirun version runs a program of that name
	}
	chosen, err := dialect.Choose(call.argv[0], os.LookupEnv)
	if err != nil {
		return dialect.Line{}, err
	}
	args := call.argv[1:]
	if completing(args) {
		return dialect.Line{Args: forCompletion(args, call.root)}, nil
	}
	command := commandOf(args, commands, call.root)
	if command == nil {
		line, err := dialect.Translate(args, os.Environ(), chosen, call.root.Flags(), commands)
		if err != nil {
			return line, err
		}
		return line.WithFile(call.root.Flags())
	}
	line, err := dialect.TranslateWords(args[1:], os.Environ(), command.Flags())
	line.Args = slices.Insert(line.Args, 0, args[0])
	return line, err
}

func (call *invocation) define(cmd *cobra.Command, c command) *cobra.Command {
	cmd.Flags().SortFlags = false
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		call.chosen = c
		call.args = args
		call.flags = cmd.Flags()
		return nil
	}
	return cmd
}

// place is where running jobs of this user are found.
func (call *invocation) place() control.Place { return control.FindPlace(os.Getenv) }

func commandNames(root *cobra.Command) []string {
	names := []string{"help", "__complete", "__completeNoDesc"}
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	return names
}

// commandOf returns the command below root that args begin with if it is among the names and takes
// the flags of a run, else nil.
func commandOf(args, names []string, root *cobra.Command) *cobra.Command {
	for _, c := range root.Commands() {
		if len(args) > 0 && args[0] == c.Name() && slices.Contains(names, args[0]) && c.Flags().Lookup("np") != nil {
			return c
		}
	}
	return nil
}

// visible returns the names of the commands that the help lists.
func visible(root *cobra.Command) (names []string) {
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}
