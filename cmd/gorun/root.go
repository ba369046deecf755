package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gorun/gorun/launcher"
)

// runCLI is gorun at the user's terminal: argv is its name and its words. It returns
// the exit code.
func runCLI(argv []string, stdin *os.File, stdout, stderr io.Writer) int {
	say := &ui{w: stderr}
	code := 0
	var line translation
	run := func(flags *pflag.FlagSet, o *runOptions, program []string, out io.Writer) error {
		settings, err := completeOptions(flags, o)
		if err != nil {
			return err
		}
		say.verbose, say.quiet = o.verbose, o.quiet
		line.add(settings)
		if text := line.notice(); text != "" {
			say.notef("%s", text)
		}
		code, err = runJob(context.Background(), o, program, streams{stdin, out, stderr}, say)
		return err
	}
	root := newRoot(func(flags *pflag.FlagSet, o *runOptions, program []string) error {
		return run(flags, o, program, stdout)
	})
	benchmarks := newBench(run)
	root.AddCommand(benchmarks)
	root.SetOut(stdout)
	root.SetErr(stderr)
	flags := root.Flags()
	commands := commandNames(root)
	if byName, _ := dialectNamed(filepath.Base(argv[0])); byName != own {
		commands = nil // mpirun version runs a program of that name
	}
	dialect, err := chooseDialect(argv[0], os.LookupEnv)
	switch args := argv[1:]; {
	case err != nil:
	case len(commands) > 0 && len(args) > 0 && args[0] == benchmarks.Name():
		flags = benchmarks.Flags()
		line, err = translateWords(args[1:], flags)
		line.args = slices.Insert(line.args, 0, args[0])
	default:
		line, err = translate(args, dialect, flags, commands)
	}
	if err == nil {
		root.SetArgs(append([]string{}, line.args...)) // not nil, which is the process's own arguments
		err = root.Execute()
	}
	if err != nil {
		say.report(explainUsage(err, line.typed))
		return exitCode(err)
	}
	return code
}

// runFunc runs a job; tests put their own in its place.
type runFunc func(flags *pflag.FlagSet, o *runOptions, program []string) error

// newRoot builds the command tree.
func newRoot(run runFunc) *cobra.Command {
	var o runOptions
	root := &cobra.Command{
		Use:   "gorun [flags] program [arguments]",
		Short: "Start a program as the ranks of one job, on this machine or on many over SSH",
		Long: `gorun starts copies of a program on many machines over SSH, as ranks of one
job, shows their output, and takes them all down when one fails.`,
		Example: `  gorun -np 4 ./train                        four ranks on this machine
  gorun -np 8 -H f1:4,f2:4 python train.py   four on each of two hosts
  gorun --hostfile hosts.txt ./train         one rank per slot in the file
  gorun -np 2 -H f1,f2 -x API_KEY ./train    send a variable that is not sent by default
  gorun -np 8 -H f1:4,f2:4 --dry-run ./train show what would run where
  gorun -np 4 --timeout 10m ./train          stop it after ten minutes`,
		Args:              cobra.ArbitraryArgs,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && !o.envFlags {
				return usagef("for example: gorun -np 4 ./train; see gorun --help", "which program should run?")
			}
			return run(cmd.Flags(), &o, args)
		},
	}
	root.Flags().SetInterspersed(false)
	root.Flags().SortFlags = false
	o.addFlags(root.Flags())
	root.Flags().BoolVar(&o.json, "json", false, "with --dry-run: as a JSON document") // gorun bench has its own
	root.AddCommand(newVersion(), newCompat())
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	groupUsage(root)
	return root
}

func commandNames(root *cobra.Command) []string {
	names := []string{"help", "__complete", "__completeNoDesc"}
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	return names
}

// completeOptions fills what the command line left open and checks the whole. It
// returns what Open MPI's settings in the environment ask for.
func completeOptions(flags *pflag.FlagSet, o *runOptions) (settings translation, err error) {
	file, name, err := readConfig(o.config, os.LookupEnv)
	if err != nil {
		return settings, err
	}
	settings, err = environmentSettings(os.Environ(), flags)
	if err != nil {
		return settings, err
	}
	if err := setDefaults(flags, os.LookupEnv, settings.args, file, name); err != nil {
		return settings, err
	}
	return settings, o.check(flags.Changed("np"))
}

// explainUsage says of the flag parser's errors which word of the user's is wrong, and
// what is wanted there. typed are the user's words for our flags.
func explainUsage(err error, typed map[string]string) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	word := "--" + invalid.GetFlag().Name
	if t := typed[invalid.GetFlag().Name]; t != "" {
		word = t
	}
	h := "see gorun --help"
	if invalid.GetFlag().Value.Type() == "int" {
		h = "for example " + word + " 2"
	}
	return usagef(h, "%s %q: %w", word, invalid.GetValue(), reason(invalid))
}

// reason is why a flag cannot have a value.
func reason(invalid *pflag.InvalidValueError) error {
	err := invalid.Unwrap()
	switch wrong := errors.Is(err, strconv.ErrSyntax) || errors.Is(err, strconv.ErrRange); {
	case wrong && invalid.GetFlag().Value.Type() == "bool":
		return errors.New("want true or false")
	case wrong:
		return errors.New("want a whole number")
	}
	return err
}

// exitCode maps an error to the exit code of gorun. The table stands in
// docs/exit-codes.md.
func exitCode(err error) int {
	var launch *launcher.LaunchError
	var slots *launcher.SlotsError
	var stopped *launcher.StoppedError
	switch {
	case errors.As(err, &launch):
		return launch.Code()
	case errors.As(err, &stopped):
		return launcher.Result{Stopped: stopped.Reason}.Code()
	case errors.As(err, &slots):
		return 2
	case isUsage(err):
		return 2
	}
	return launcher.CodeLaunch
}

func isUsage(err error) bool {
	var own *usageError
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	var syntax *pflag.InvalidSyntaxError
	return errors.As(err, &own) || errors.As(err, &unknown) || errors.As(err, &missing) ||
		errors.As(err, &invalid) || errors.As(err, &syntax)
}
