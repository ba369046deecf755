package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gorun/gorun/launcher"
)

// runCLI is gorun at the user's terminal. It returns the exit code.
func runCLI(args []string, stdin *os.File, stdout, stderr io.Writer) int {
	say := &ui{w: stderr}
	code := 0
	run := func(flags *pflag.FlagSet, o *runOptions, program []string, out io.Writer) error {
		if err := completeOptions(flags, o); err != nil {
			return err
		}
		say.verbose = o.verbose
		var err error
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
	if len(args) > 0 && args[0] == benchmarks.Name() {
		flags = benchmarks.Flags()
		root.SetArgs(append(args[:1:1], normalizeWords(args[1:], flags)...))
	} else {
		root.SetArgs(normalize(args, flags, commandNames(root)))
	}
	if err := root.Execute(); err != nil {
		err = explainUsage(err, flags)
		say.report(err)
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
			if len(args) == 0 {
				return usagef("for example: gorun -np 4 ./train; see gorun --help", "which program should run?")
			}
			return run(cmd.Flags(), &o, args)
		},
	}
	root.Flags().SetInterspersed(false)
	root.Flags().SortFlags = false
	o.addFlags(root.Flags())
	root.AddCommand(newVersion())
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	root.SetUsageTemplate(root.UsageTemplate() + "\nExit codes: the first failing rank's own, 128+signal, or 2 usage, 124 timeout,\n125 cannot launch or host lost, 126/127 program not executable/not found, 130 Ctrl-C.\n")
	return root
}

func commandNames(root *cobra.Command) []string {
	names := []string{"help", "__complete", "__completeNoDesc"}
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	return names
}

// completeOptions fills what the command line left open and checks the whole.
func completeOptions(flags *pflag.FlagSet, o *runOptions) error {
	file, name, err := readConfig(o.config, os.LookupEnv)
	if err != nil {
		return err
	}
	if err := setDefaults(flags, os.LookupEnv, file, name); err != nil {
		return err
	}
	return o.check(flags.Changed("np"))
}

// explainUsage adds the flag that was probably meant to an unknown one's error.
func explainUsage(err error, flags *pflag.FlagSet) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		var names []string
		flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		h := "see gorun --help; flags of your program go after its name"
		dashes := "--"
		if group := unknown.GetSpecifiedShortnames(); group != "" {
			name, dashes = group, "-"
		}
		if n := nearest(name, names); n != "" {
			h = fmt.Sprintf("did you mean --%s?", n)
		}
		return usagef(h, "there is no flag %s%s", dashes, name)
	case errors.As(err, &invalid):
		return usagef("see gorun --help", "--%s %q: %w", invalid.GetFlag().Name, invalid.GetValue(), reason(invalid))
	case errors.As(err, &missing):
		return usagef("see gorun --help", "--%s needs a value", missing.GetFlag().Name)
	}
	return err
}

// reason is why a flag cannot have a value.
func reason(invalid *pflag.InvalidValueError) error {
	err := invalid.Unwrap()
	if errors.Is(err, strconv.ErrSyntax) || errors.Is(err, strconv.ErrRange) {
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
