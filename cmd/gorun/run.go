package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
	"github.com/gorun/gorun/cmd/gorun/internal/exitcode"
	"github.com/gorun/gorun/cmd/gorun/internal/job"
	"github.com/gorun/gorun/cmd/gorun/internal/kept"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/usage"
)

// runCommand is gorun without the name of a command: it runs a program as the ranks of a job.
type runCommand struct{ jobCommand }

func newRoot(call *invocation) *cobra.Command {
	c := &runCommand{jobCommand{invocation: call}}
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
		ValidArgsFunction: completeProgram,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	if call.isPlugin() {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl gorun"}
		root.Example = `  kubectl gorun --hosts-from-pods app=train python train.py   ranks in the pods with that label
  kubectl gorun -H worker-0:2,worker-1:2 python train.py      two in each of two pods`
	}
	root.Flags().SetInterspersed(false)
	c.takeJobFlags(root, c, settings.Programs)
	root.SetFlagErrorFunc(wrongFlag) // also of the commands below it
	root.SetOut(call.plain)
	root.SetErr(ui.Plain(call.stderr))
	root.AddCommand(newBench(call), newGPUs(call), newHosts(call), newDoctor(call), newUp(call), newCopy(call),
		newConfig(call), newVersion(call), newCompat(call), newMan(call))
	for _, cmd := range []*cobra.Command{newDown(call), newPs(call), newLogs(call), newAttach(call), newWait(call),
		newKill(call), newExec(call), newForward(call), newStacks(call), newTop(call), newReport(call)} {
		root.AddCommand(cmd)
	}
	root.InitDefaultCompletionCmd()
	refuseUnknownShells(root)
	root.InitDefaultHelpCmd()
	refuseUnknownTopics(root)
	root.SetUsageFunc(writeUsage)
	return root
}

func (c *runCommand) Run(ctx context.Context) (code int, err error) {
	if (len(c.args) == 0 || c.args[0] == "") && !c.o.EnvFlags && c.o.JobFile == "" {
		return 0, missingProgram(c.argv[1:])
	}
	command, err := c.complete()
	if err != nil {
		return 0, err
	}
	if c.keeping {
		return c.keep(ctx)
	}
	argv, err := chooseProgram(c.args, command, &c.o)
	if err != nil {
		return 0, err
	}
	return c.start(ctx, argv, c.stdout)
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

// jobCommand is the common part of the commands that take the flags of a run.
type jobCommand struct {
	*invocation
	o settings.Options
}

// takeJobFlags makes cmd run c, and adds the flags of a run after cmd's own. The help lists the
// flags that apply to a command of this level.
func (j *jobCommand) takeJobFlags(cmd *cobra.Command, c command, level settings.Level) *cobra.Command {
	j.define(cmd, c)
	j.o.AddFlags(cmd.Flags(), level)
	return cmd
}

// complete fills in unset options from files and the environment, checks them all, and tells the
// user which requests gorun does not fulfil. It returns the program of a job file.
func (j *jobCommand) complete() (command []string, err error) {
	typed := settings.Given(j.flags)
	file, err := settings.ReadJobFile(j.o.JobFile, j.flags, os.LookupEnv)
	if err == nil {
		err = file.Apply(j.flags)
	}
	if err != nil {
		return nil, err
	}
	defaults, err := settings.ReadDefaults(j.o.Config, j.flags, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	variables, err := j.line.Defaults()
	if err != nil {
		return nil, err
	}
	if err := settings.SetDefaults(j.flags, os.LookupEnv, variables, defaults); err != nil {
		return nil, err
	}
	if j.flags.Changed("start-timeout") { // unset: no limit before MPI_Init
		j.o.MPITimeout = j.o.StartTimeout
	}
	if j.isPlugin() && j.o.Launcher == "auto" && j.o.RSHAgent == "" {
		j.o.Launcher = "kubexec"
	}
	if err := file.Blame(j.o.Check(j.flags.Changed("np")), typed); err != nil {
		return nil, err
	}
	if j.line.Dialect == dialect.Own { // srun and flux warn at once
		if err := file.Blame(j.o.CheckWarning(), typed); err != nil {
			return nil, err
		}
	}
	j.o.Follow(j.line.Dialect, j.flags)
	j.console.Verbose = j.o.Verbose
	j.console.Quiet = j.o.Quiet
	j.o.Trace = j.console.Tracef
	for _, unfulfilled := range []dialect.Line{file.Unfulfilled, defaults.Unfulfilled} {
		j.line.Add(unfulfilled)
	}
	if text := j.line.Notice(); text != "" {
		j.console.Notef("%s", text)
	}
	return file.Command, nil
}

// start runs argv as the ranks of a job, whose stdout is out.
func (j *jobCommand) start(ctx context.Context, argv []string, out io.Writer) (code int, err error) {
	programs, err := job.Programs(&j.o, argv, j.line)
	if err == nil {
		err = checkListOfHosts(j.o.Hosts, argv)
	}
	if err == nil && !j.onlyShows() {
		err = job.CheckOuter(os.LookupEnv)
	}
	if err != nil {
		return 0, err
	}
	if j.detaches() {
		return detach(j.argv, j.plain, j.console)
	}
	if err := j.prepareHosts(ctx, argv); err != nil {
		return 0, err
	}
	code, err = job.Run(ctx, &j.o, programs, job.Streams{
		In:      j.stdin,
		Out:     out,
		Err:     j.stderr,
		Waiting: j.waiting,
	}, j.console)
	if h := strayFlags(argv); h != "" && err == nil && code != 0 {
		j.console.Hintf("%s", h)
	}
	if len(programs) == 1 {
		err = explainProgram(err, argv, &j.o, visible(j.root))
	}
	return code, err
}

// onlyShows reports whether the flags only ask for a description of the run.
func (j *jobCommand) onlyShows() bool { return j.o.DryRun || j.o.EnvFlags }

// detaches reports whether another gorun in the background runs the job.
func (j *jobCommand) detaches() bool { return j.o.Control.Detach && j.waiting == nil && !j.onlyShows() }

// prepareHosts examines the hosts and keeps them connected, where the flags ask for it.
func (j *jobCommand) prepareHosts(ctx context.Context, argv []string) error {
	if j.onlyShows() {
		return nil
	}
	if j.o.Checkup.Level != "" {
		if err := j.checkFirst(ctx, argv); err != nil {
			return err
		}
	}
	if j.o.Control.Keep > 0 && !j.o.NoKept {
		if err := kept.Ensure(ctx, &j.o, j.argv, j.console); exitcode.IsUsage(err) {
			return err
		} else if err != nil { // the job itself reports bad hosts
			j.console.Warningf("%v", err)
		}
	}
	return nil
}

// keep keeps the hosts of a run connected until no job has used them for the time of --keep.
func (j *jobCommand) keep(ctx context.Context) (code int, err error) {
	keeper := kept.Keeper{
		Limits:  kept.Limits{Idle: time.Duration(j.o.Control.Keep)},
		Words:   shownWords(j.argv),
		Waiting: j.waiting,
	}
	return keeper.Serve(ctx, &j.o, j.console)
}
