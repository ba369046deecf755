package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
	"github.com/gorun/gorun/cmd/gorun/internal/exitcode"
	"github.com/gorun/gorun/cmd/gorun/internal/files"
	"github.com/gorun/gorun/cmd/gorun/internal/job"
	"github.com/gorun/gorun/cmd/gorun/internal/kept"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/usage"
)

// runCLI runs gorun with argv, its name and arguments, and returns the exit code. waiting is the
// pipe to the gorun that detaches this job; nil: this one was started by the user.
func runCLI(argv []string, stdin *os.File, stdout, stderr io.Writer, waiting *os.File) int {
	deadline := ui.NewWriteDeadline()
	console := &ui.UI{W: &ui.DeadlineWriter{W: stderr, Deadline: deadline}, Deadline: deadline}
	own := ui.Plain(stdout) // of all that is not the ranks'
	code := 0
	var err error
	var line dialect.Line
	var shown []string // visible commands
	complete := func(flags *pflag.FlagSet, o *settings.Options) (command []string, err error) {
		command, settings, err := completeOptions(flags, o)
		if err != nil {
			return nil, err
		}
		o.Follow(line.Dialect)
		console.Verbose = o.Verbose
		console.Quiet = o.Quiet
		o.Trace = console.Tracef
		line.Add(settings)
		if text := line.Notice(); text != "" {
			console.Notef("%s", text)
		}
		return command, nil
	}
	typed := argv
	keeping := len(argv) > 1 && argv[1] == kept.Command // for a run whose words these are
	if keeping {
		argv = slices.Delete(slices.Clone(argv), 1, 2)
	}
	run := func(flags *pflag.FlagSet, o *settings.Options, argv []string, out io.Writer) error {
		command, err := complete(flags, o)
		if err != nil {
			return err
		}
		if keeping {
			code, err = kept.Serve(context.Background(), o, false, kept.Limits{Idle: time.Duration(o.Control.Keep)},
				shownWords(typed), waiting, console)
			return err
		}
		if argv, err = chooseProgram(argv, command, o); err != nil {
			return err
		}
		programs, err := job.Programs(o, argv, line)
		if err != nil {
			return err
		}
		if o.Control.Detach && waiting == nil && !o.DryRun && !o.EnvFlags {
			if out != stdout {
				return usage.Errorf("redirect its table instead: gorun bench ... >FILE &",
					"--detach is for programs, not for gorun bench")
			}
			code, err = detach(typed, own, console)
			return err
		}
		if o.Checkup.Level != "" && !o.DryRun && !o.EnvFlags {
			if err := checkFirst(context.Background(), flags, o, argv, console); err != nil {
				return err
			}
		}
		if o.Control.Keep > 0 && !o.NoKept && !o.DryRun && !o.EnvFlags {
			if err := kept.Ensure(context.Background(), o, typed, console); exitcode.IsUsage(err) {
				return err
			} else if err != nil { // a host of the job may be bad, which the job says
				console.Warningf("%v", err)
			}
		}
		code, err = job.Run(context.Background(), o, programs, job.Streams{
			In:      stdin,
			Out:     out,
			Err:     stderr,
			Waiting: waiting,
		}, console)
		if h := strayFlags(argv); h != "" && err == nil && code != 0 {
			console.Hintf("%s", h)
		}
		if len(programs) == 1 {
			err = explainProgram(err, argv, o, shown)
		}
		return err
	}
	root := newRoot(func(flags *pflag.FlagSet, o *settings.Options, program []string) error {
		return run(flags, o, program, stdout)
	})
	benchmarks := newBench(run)
	inspect := func(list func(context.Context, *settings.Options, listOptions, io.Writer, *ui.UI) (int,
		error)) listFunc {
		return func(flags *pflag.FlagSet, o *settings.Options, how listOptions) error {
			_, err := complete(flags, o)
			if err == nil {
				code, err = list(context.Background(), o, how, own, console)
			}
			return err
		}
	}
	gpus := newGPUs(inspect(listGPUs))
	listing := newHosts(inspect(listHosts))
	checkup := newDoctor(func(flags *pflag.FlagSet, o *settings.Options, d doctorOptions) error {
		_, err := complete(flags, o)
		if err == nil {
			code, err = examineHosts(context.Background(), flags, o, d, own, console)
		}
		return err
	})
	up := newUp(func(flags *pflag.FlagSet, o *settings.Options, limits kept.Limits) error {
		if _, err := complete(flags, o); err != nil {
			return err
		}
		if waiting == nil {
			code, err = startKeeper(typed, own, console)
		} else {
			code, err = kept.Serve(context.Background(), o, true, limits, shownWords(typed), waiting, console)
		}
		return err
	})
	copying := newCopy(func(flags *pflag.FlagSet, o *settings.Options, r files.Request) error {
		_, err := complete(flags, o)
		if err == nil {
			code, err = copyFiles(context.Background(), o, r, console)
		}
		return err
	})
	root.AddCommand(benchmarks, gpus, listing, checkup, up, copying,
		newDown(jobsIO{stdin, stdout, stderr, console, &code}))
	root.AddCommand(newJobs(jobsIO{stdin, stdout, stderr, console, &code})...)
	root.SetOut(own)
	root.SetErr(ui.Plain(stderr))
	shown = visible(root)
	line, err = readLine(argv, root, benchmarks, gpus, listing, checkup, up, copying)
	if err == nil {
		root.SetArgs(append([]string{}, line.Args...)) // nil would mean os.Args
		err = root.Execute()
	}
	if err != nil {
		console.Report(settings.ExplainUsage(err, line.Typed))
		return exitcode.Of(err)
	}
	return code
}

// readLine translates the command line to gorun's own flags. among are the commands that take the
// flags of a run.
func readLine(argv []string, root *cobra.Command, among ...*cobra.Command) (dialect.Line, error) {
	commands := commandNames(root)
	if byName, _ := dialect.Named(filepath.Base(argv[0])); byName != dialect.Own {
		commands = nil // mpirun version runs a program of that name
	}
	chosen, err := dialect.Choose(argv[0], os.LookupEnv)
	if err != nil {
		return dialect.Line{}, err
	}
	args := argv[1:]
	if completing(args) {
		return dialect.Line{Args: forCompletion(args, root, among...)}, nil
	}
	command := commandOf(args, commands, among...)
	if command == nil {
		line, err := dialect.Translate(args, chosen, root.Flags(), commands)
		if err != nil {
			return line, err
		}
		return line.WithFile(root.Flags())
	}
	line, err := dialect.TranslateWords(args[1:], command.Flags())
	line.Args = slices.Insert(line.Args, 0, args[0])
	return line, err
}

// runFunc runs a job; tests replace it.
type runFunc func(flags *pflag.FlagSet, o *settings.Options, program []string) error

// newRoot builds the command tree.
func newRoot(run runFunc) *cobra.Command {
	var o settings.Options
	root := &cobra.Command{
		Use:   "gorun [flags] program [arguments] [: ...]",
		Short: "Start a program as the ranks of one job, on this machine or on many over SSH",
		Long: `gorun starts copies of a program on many machines over SSH, as ranks of one
job, shows their output, and takes them all down when one fails.`,
		Example: `  gorun -np 4 ./train                        four ranks on this machine
  gorun -np 8 -H f1:4,f2:4 python train.py   four on each of two hosts
  gorun --hostfile hosts.txt ./train         one rank per slot in the file
  gorun -np 2 -H f1,f2 -x API_KEY ./train    send a variable that is not sent by default
  gorun -np 8 -H f1:4,f2:4 --dry-run ./train show what would run where
  gorun -np 1 ./server : -np 4 ./worker      two programs in one job
  gorun -np 4 --timeout 10m ./train          stop it after ten minutes`,
		Args:              cobra.ArbitraryArgs,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0 || args[0] == "") && !o.EnvFlags && o.JobFile == "" {
				return usage.Errorf("for example: gorun -np 4 ./train; see gorun --help", "no program given")
			}
			return run(cmd.Flags(), &o, args)
		},
	}
	root.Flags().SetInterspersed(false)
	root.Flags().SortFlags = false
	o.AddFlags(root.Flags())
	root.Flags().BoolVar(&o.JSON, "json", false, "with --dry-run: as a JSON document") // gorun bench has its own
	root.ValidArgsFunction = completeProgram
	completeFlags(root)
	root.AddCommand(newVersion(), newCompat(), newMan())
	root.InitDefaultCompletionCmd()
	refuseUnknownShells(root)
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

// commandOf returns the command among those that args begin with, or nil.
func commandOf(args, commands []string, among ...*cobra.Command) *cobra.Command {
	for _, c := range among {
		if len(args) > 0 && args[0] == c.Name() && slices.Contains(commands, c.Name()) {
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

// completeOptions fills in unset options from files and the environment, and checks them all. It
// returns the program of a job file, and the requests of files and Open MPI variables that gorun
// does not fulfil.
func completeOptions(flags *pflag.FlagSet, o *settings.Options) (command []string, rest dialect.Line, err error) {
	typed := settings.Given(flags)
	job, err := settings.ReadJobFile(o.JobFile, flags, os.LookupEnv)
	if err == nil {
		err = job.Apply(flags)
	}
	if err != nil {
		return nil, rest, err
	}
	file, err := settings.ReadDefaults(o.Config, flags, os.LookupEnv)
	if err != nil {
		return nil, rest, err
	}
	rest, err = dialect.EnvironmentSettings(os.Environ(), flags)
	if err != nil {
		return nil, rest, err
	}
	if err := settings.SetDefaults(flags, os.LookupEnv, rest.Args, file); err != nil {
		return nil, rest, err
	}
	rest.Add(job.Unfulfilled)
	rest.Add(file.Unfulfilled)
	if flags.Changed("start-timeout") { // by default a program may take its time before MPI_Init
		o.MPITimeout = o.StartTimeout
	}
	return job.Command, rest, job.Blame(o.Check(flags.Changed("np")), typed)
}

// chooseProgram returns the program of the command line, or else of the job file.
func chooseProgram(program, command []string, o *settings.Options) ([]string, error) {
	switch {
	case len(program) > 0 || o.EnvFlags:
		return program, nil
	case len(command) == 0:
		return nil, usage.Errorf("write command: ./train in it, or name the program after the flags",
			"%s names no program", o.JobFile)
	}
	return command, nil
}
