package main

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gorun/gorun/cmd/gorun/internal/jobs"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/usage"
)

// oneJob requires the id or name of a job.
func oneJob(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage.Errorf("name one job: "+cmd.CommandPath()+" g7k2; gorun ps lists them",
			"%s takes the id or name of a job", cmd.CommandPath())
	}
	return nil
}

// completeJobs completes the first word with ids and names of the jobs that the command can do
// something with.
func completeJobs(cmd *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	if len(args) > 0 && cmd.Name() != "kill" {
		return nil, cobra.ShellCompDirectiveDefault
	}
	found, _ := control.FindPlace(os.Getenv).List(context.Background(), cmd.Name() == "logs" || cmd.Name() == "wait")
	for _, f := range found {
		for _, name := range []string{f.ID, f.Name} {
			if name != "" && serves(cmd.Name(), f) && !slices.Contains(args, name) {
				names = append(names, name)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// serves reports whether a command has a use for a job.
func serves(command string, f control.Found) bool {
	here := f.Client != nil
	switch command {
	case "wait":
		return true
	case "logs":
		return here && f.State != control.Keeping || f.Log != ""
	case "kill":
		return here
	}
	return here && f.State != control.Keeping
}

// completeHostsOfJobs completes the name of a host of the job among the arguments, or of any.
func completeHostsOfJobs(cmd *cobra.Command, args []string, _ string) (names []cobra.Completion,
	_ cobra.ShellCompDirective) {
	found, _ := control.FindPlace(os.Getenv).List(context.Background(), false)
	for _, f := range found {
		if !serves(cmd.Name(), f) || len(args) > 0 && args[0] != f.ID && args[0] != f.Name {
			continue
		}
		for _, h := range f.Hosts {
			if !slices.Contains(names, h.Host) {
				names = append(names, h.Host)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// psCommand is gorun ps.
type psCommand struct {
	*invocation
	all, json, quiet bool
	last             int
}

func newPs(call *invocation) *cobra.Command {
	c := &psCommand{invocation: call}
	cmd := call.define(&cobra.Command{
		Use:   "ps [flags]",
		Short: "List your running jobs on this machine",
		Long: `ps lists the jobs whose gorun you have started on this machine, and detached jobs of other machines
with the same home. -a adds the newest jobs that have ended within seven days, with exit code and
cause. A job whose gorun was killed is listed if it was started with --detach.`,
		Example: `  gorun ps
  gorun ps -a --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage.Errorf("gorun logs "+usage.Clipped(args[0])+
					" shows the output of one job; gorun ps -a also lists jobs that have ended",
					"gorun ps lists all jobs and takes no name")
			}
			return nil
		},
	}, c)
	cmd.Flags().BoolVarP(&c.all, "all", "a", false, "also jobs that have ended, for 7 days")
	cmd.Flags().IntVar(&c.last, "last", 50, "also at most this many of the newest jobs that have ended; 0: all")
	cmd.Flags().BoolVar(&c.json, "json", false, "print a JSON object instead of a table")
	cmd.Flags().BoolVarP(&c.quiet, "quiet", "q", false, "print ids only")
	cmd.MarkFlagsMutuallyExclusive("json", "quiet")
	return cmd
}

func (c *psCommand) Run(ctx context.Context) (code int, err error) {
	chosen := c.flags.Changed("last")
	if c.last < 0 {
		return 0, usage.Errorf("give a number of jobs: --last 20, or 0 for all", "--last %d: at least 0", c.last)
	}
	if (c.quiet || c.json) && !chosen {
		c.last = 0 // programs read them
	}
	found, older, err := jobs.Own(ctx, c.place(), c.all || chosen, c.last)
	if chosen {
		older = 0 // the user knows
	}
	switch {
	case err != nil:
		return 0, err
	case c.quiet:
		return 0, jobs.IDs(found, c.stdout)
	case c.json:
		return 0, jobs.WriteJSON(found, c.stdout)
	}
	return 0, jobs.List(found, older, c.all || chosen, c.plain, c.console)
}

// viewFlags are the flags by which the user chooses the output of a job to see.
type viewFlags struct {
	jobs.View
	ranks settings.Ranks
	since settings.Seconds

	fold   settings.Fold
	noFold bool
}

func (v *viewFlags) add(flags *pflag.FlagSet) {
	flags.Var(&v.ranks, "rank", "only the output of these ranks: 3, 0,8-11")
	flags.Var(&v.since, "since", "only output that is at most this old: 30s, 5m, 2h")
	flags.BoolVar(&v.Stderr, "stderr", false, "only stderr")
	flags.StringVar(&v.Style.Style, "prefix", "host", "prefix of lines, as gorun --prefix")
	flags.Var(&v.fold, "fold", "show equal lines of ranks as one, as gorun --fold")
	flags.Lookup("fold").NoOptDefVal = "lines"
	flags.BoolVar(&v.noFold, "no-fold", false, "show every line of every rank")
	flags.BoolVar(&v.Style.Timestamp, "timestamp", false, "start lines with the time at which they came")
}

// on returns the view with the styles for the streams of a call.
func (v *viewFlags) on(call *invocation) jobs.View {
	view := v.View
	view.Ranks = v.ranks
	view.Since = time.Duration(v.since)
	view.Style.Fold = v.fold.Of(v.noFold)
	for fd, w := range []any{1: call.stdout, 2: call.stderr} {
		view.Screen[fd] = ui.IsTerminal(w)
		view.Style.Color[fd] = ui.UseColor("auto", view.Screen[fd], os.LookupEnv)
	}
	return view
}

// logsCommand is gorun logs.
type logsCommand struct {
	*invocation
	view   viewFlags
	follow bool
	grep   string
}

func newLogs(call *invocation) *cobra.Command {
	c := &logsCommand{invocation: call}
	cmd := call.define(&cobra.Command{
		Use:   "logs [flags] JOB",
		Short: "Print the output of a job",
		Long: `logs prints the output of a job: of a detached job all that is kept, the last 64 MiB, also for seven
days after its end; of a running job with a terminal the last 2 MiB.`,
		Example: `  gorun logs g7k2
  gorun logs -f --rank 3 train
  gorun logs --since 5m --stderr train
  gorun logs --tail 20 --grep 'loss|Error' train`,
		Args:              oneJob,
		ValidArgsFunction: completeJobs,
	}, c)
	cmd.Flags().BoolVarP(&c.follow, "follow", "f", false, "also print new output, until the job ends")
	cmd.Flags().IntVar(&c.view.Tail, "tail", 0, "only the last lines of the output so far, at most this many")
	cmd.Flags().StringVar(&c.grep, "grep", "", "only lines that match this regular expression")
	c.view.add(cmd.Flags())
	return cmd
}

func (c *logsCommand) Run(ctx context.Context) (code int, err error) {
	view := c.view.on(c.invocation)
	if view.Tail < 0 || c.flags.Changed("tail") && view.Tail == 0 {
		return 0, usage.Errorf("give a number of lines: --tail 20", "--tail %d: at least 1", view.Tail)
	}
	if c.grep != "" {
		if view.Grep, err = regexp.Compile(c.grep); err != nil {
			return 0, usage.Errorf("for example --grep 'loss|Error'", "--grep: %w", err)
		}
	}
	return 0, jobs.Logs(ctx, c.place(), c.args[0], view, c.follow, c.stdout, c.stderr)
}

// attachCommand is gorun attach.
type attachCommand struct {
	*invocation
	view     viewFlags
	terminal int
}

func newAttach(call *invocation) *cobra.Command {
	c := &attachCommand{invocation: call}
	cmd := call.define(&cobra.Command{
		Use:   "attach [flags] JOB",
		Short: "Show a running job as if it had been started here",
		Long: `attach prints the output of a running job, from the last ten seconds on, and ends with the job, with
its exit code. Ctrl-C stops the job. Ctrl-P Ctrl-Q, or an end of attach by any signal, leaves it
running. --terminal connects with the terminal of one rank, which a job started with --panes has;
all keys go to the rank.`,
		Example: `  gorun attach g7k2
  gorun attach --terminal 3 g7k2
  gorun attach --since 5m train`,
		Args:              oneJob,
		ValidArgsFunction: completeJobs,
	}, c)
	c.view.since = settings.Seconds(10 * time.Second)
	c.view.add(cmd.Flags())
	cmd.Flags().IntVar(&c.terminal, "terminal", -1, "the rank whose terminal to connect with this one")
	return cmd
}

func (c *attachCommand) Run(ctx context.Context) (code int, err error) {
	if c.flags.Changed("terminal") {
		return jobs.Terminal(ctx, c.place(), c.args[0], c.terminal, c.stdin, c.stdout, c.console)
	}
	return jobs.Attach(ctx, c.place(), c.args[0], c.view.on(c.invocation), c.stdin, c.stdout, c.stderr, c.console)
}

// waitCommand is gorun wait.
type waitCommand struct{ *invocation }

func newWait(call *invocation) *cobra.Command {
	return call.define(&cobra.Command{
		Use:   "wait JOB",
		Short: "Wait for the end of a job",
		Long: `wait waits until a job has ended, and exits with its exit code, also if it has ended within the last
seven days.`,
		Args:              oneJob,
		ValidArgsFunction: completeJobs,
	}, &waitCommand{call})
}

func (c *waitCommand) Run(ctx context.Context) (code int, err error) {
	return jobs.Wait(ctx, c.place(), c.args[0], c.console)
}

// killCommand is gorun kill.
type killCommand struct {
	*invocation
	signal settings.Signal
	ranks  settings.Ranks
	all    bool
}

func newKill(call *invocation) *cobra.Command {
	c := &killCommand{invocation: call, signal: settings.Signal(syscall.SIGTERM)}
	cmd := call.define(&cobra.Command{
		Use:   "kill [flags] JOB...",
		Short: "Stop running jobs, or signal their ranks",
		Long: `kill stops a job as a signal to its gorun does: TERM, INT and HUP end it with the grace of --grace,
KILL at once. It does not wait for the end: gorun wait does. Other signals go to the process groups
of all ranks, and with --rank any signal goes to those of some. A rank that such a signal ends has
failed, and the job with it.`,
		Example: `  gorun kill g7k2
  gorun kill --signal KILL train
  gorun kill --signal USR1 --rank 3 train
  gorun kill --all`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case c.all && len(args) > 0:
				return usage.Errorf("leave one of them out", "--all and the name of a job")
			case c.all || len(args) > 1:
				return nil
			}
			return oneJob(cmd, args)
		},
		ValidArgsFunction: completeJobs,
	}, c)
	cmd.Flags().Var(&c.signal, "signal", "a signal by name or number")
	cmd.Flags().Var(&c.ranks, "rank", "only these ranks: 3, 0,8-11")
	cmd.Flags().BoolVar(&c.all, "all", false, "all your jobs on this machine; hosts that gorun up keeps stay connected")
	cmd.MarkFlagsMutuallyExclusive("all", "rank")
	return cmd
}

func (c *killCommand) Run(ctx context.Context) (code int, err error) {
	number := syscall.Signal(c.signal)
	if c.all {
		return 0, jobs.KillAll(ctx, c.place(), number, c.console)
	}
	var errs []error
	for _, name := range c.args {
		errs = append(errs, jobs.Kill(ctx, c.place(), name, number, c.ranks))
	}
	return 0, errors.Join(errs...)
}

// execCommand is gorun exec.
type execCommand struct {
	*invocation
	rank int
	host string
}

func newExec(call *invocation) *cobra.Command {
	c := &execCommand{invocation: call}
	cmd := call.define(&cobra.Command{
		Use:   "exec [flags] JOB COMMAND [ARGUMENTS]",
		Short: "Run a command where a rank of a running job runs",
		Long: `exec runs a command on the host of a rank, in the rank's environment and directory, over the
connection that the job has already. It has a terminal if gorun has one. No shell reads its words.
The exit code is the command's. It ends with the job, and with this gorun.`,
		Example: `  gorun exec g7k2 nvidia-smi
  gorun exec --rank 3 train bash
  gorun exec --host f2 train sh -c 'df -h $TMPDIR'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage.Errorf("for example gorun exec --rank 3 g7k2 bash", "gorun exec takes a job and a command")
			}
			return nil
		},
		ValidArgsFunction: completeJobs,
	}, c)
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().IntVar(&c.rank, "rank", 0, "the rank whose host, environment and directory the command gets")
	cmd.Flags().StringVar(&c.host, "host", "", "a host by its name in the job, instead of a rank")
	_ = cmd.RegisterFlagCompletionFunc("host", completeHostsOfJobs) // an error means a missing or registered flag
	cmd.MarkFlagsMutuallyExclusive("rank", "host")
	return cmd
}

func (c *execCommand) Run(ctx context.Context) (code int, err error) {
	request := control.Exec{Rank: c.rank, Host: c.host, Argv: c.args[1:]}
	if c.host != "" {
		request.Rank = -1
	}
	return jobs.Exec(ctx, c.place(), c.args[0], request, c.stdin, c.stdout, c.stderr, c.console)
}

// forwardCommand is gorun forward.
type forwardCommand struct {
	*invocation
	to control.Exec
}

func newForward(call *invocation) *cobra.Command {
	c := &forwardCommand{invocation: call}
	cmd := call.define(&cobra.Command{
		Use:   "forward [flags] JOB PORT[:LOCAL]...",
		Short: "Reach a port of a rank's host at a port of this machine",
		Long: `forward lets your programs on this machine reach a TCP port of a rank's host, such as TensorBoard's
or a debugger's, over the connection that the job has already: 127.0.0.1:LOCAL leads to PORT there.
Without LOCAL both have one number, and 0 is any free port. Other users of this machine are refused.
It ends with the job, or at Ctrl-C.`,
		Example: `  gorun forward g7k2 6006
  gorun forward --rank 3 train 5678:8080`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage.Errorf("for example gorun forward g7k2 6006", "gorun forward takes a job and ports")
			}
			return nil
		},
		ValidArgsFunction: completeJobs,
	}, c)
	cmd.Flags().IntVar(&c.to.Rank, "rank", 0, "the rank whose host it is")
	cmd.Flags().StringVar(&c.to.Host, "host", "", "a host by its name in the job, instead of a rank")
	_ = cmd.RegisterFlagCompletionFunc("host", completeHostsOfJobs) // an error means a missing or registered flag
	cmd.MarkFlagsMutuallyExclusive("rank", "host")
	return cmd
}

func (c *forwardCommand) Run(ctx context.Context) (code int, err error) {
	if c.to.Host != "" {
		c.to.Rank = -1
	}
	var ports []jobs.Port
	for _, text := range c.args[1:] {
		port, err := jobs.ParsePort(text)
		if err != nil {
			return 0, err
		}
		ports = append(ports, port)
	}
	return 0, jobs.Forward(ctx, c.place(), c.args[0], c.to, ports, c.console)
}

// stacksCommand is gorun stacks.
type stacksCommand struct {
	*invocation
	view  jobs.StacksView
	ranks settings.Ranks
}

func newStacks(call *invocation) *cobra.Command {
	c := &stacksCommand{invocation: call}
	cmd := call.define(&cobra.Command{
		Use:   "stacks [flags] JOB",
		Short: "Show what the ranks of a running job do now",
		Long: `stacks prints which ranks others wait for in a collective of ring, and the stacks of all ranks and
of the processes below them as one tree, what few ranks do first. Python tells its stack itself if
the program has imported gorun; of CPython 3.9 to 3.15 gorun reads it from memory, of others py-spy
does, if it is in the rank's PATH. Programs that use ring in Go tell those of their goroutines; of
other programs eu-stack or gdb reads them. No rank is stopped for longer than a debugger needs.`,
		Example: `  gorun stacks g7k2
  gorun stacks --rank 3 --full train`,
		Args:              oneJob,
		ValidArgsFunction: completeJobs,
	}, c)
	cmd.Flags().Var(&c.ranks, "rank", "only these ranks: 3, 0,8-11")
	cmd.Flags().BoolVar(&c.view.Full, "full", false, "all functions of all threads, instead of at most 60 lines")
	cmd.Flags().BoolVar(&c.view.JSON, "json", false,
		"print a JSON object instead of a tree, also with sockets and the last 64 calls")
	return cmd
}

func (c *stacksCommand) Run(ctx context.Context) (code int, err error) {
	c.view.Ranks = c.ranks
	return 0, jobs.Stacks(ctx, c.place(), c.args[0], c.view, c.stdout)
}
