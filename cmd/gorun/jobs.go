package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/gorun/gorun/cmd/gorun/internal/jobs"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/usage"
)

// jobsIO is what the commands about running jobs read and write.
type jobsIO struct {
	in        *os.File
	out, errs io.Writer
	console   *ui.UI
	code      *int // exit code
}

// newJobs returns the commands about running jobs.
func newJobs(io jobsIO) []*cobra.Command {
	all := []*cobra.Command{newPs(io), newLogs(io), newAttach(io), newWait(io), newKill(io), newExec(io), newStacks(io),
		newTop(io), newReport(io)}
	for _, c := range all {
		c.SetFlagErrorFunc(unknownFlag)
	}
	return all
}

// oneJob makes a command take the id or name of a job, and complete it.
func oneJob(cmd *cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage.Errorf("name one job: "+cmd.CommandPath()+" g7k2; gorun ps lists them",
				"%s takes the id or name of a job", cmd.CommandPath())
		}
		return nil
	}
	cmd.ValidArgsFunction = completeJobs
	cmd.Flags().SortFlags = false
	return cmd
}

// completeJobs completes the first word with ids and names.
func completeJobs(cmd *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	found, _ := control.FindPlace(os.Getenv).List(context.Background(), cmd.Name() == "logs" || cmd.Name() == "wait")
	for _, f := range found {
		if f.State == control.Keeping && cmd.Name() != "kill" {
			continue
		}
		names = append(names, f.ID)
		if f.Name != "" {
			names = append(names, f.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func newPs(io jobsIO) *cobra.Command {
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "ps [flags]",
		Short: "List your running jobs on this machine",
		Long: `ps lists the jobs whose gorun you have started on this machine, and detached jobs of other machines with the same
home. -a adds jobs that have ended within seven days, with exit code and cause.`,
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			return jobs.List(cmd.Context(), control.FindPlace(os.Getenv), all, asJSON, ui.Plain(io.out), io.console)
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also jobs that have ended, for 7 days")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object instead of a table")
	return cmd
}

// addView adds the flags of a view. since is the default time.
func addView(cmd *cobra.Command, view *jobs.View, io jobsIO, since settings.Seconds) func() jobs.View {
	ranks := new(settings.Ranks)
	after := new(settings.Seconds)
	*after = since
	cmd.Flags().Var(ranks, "rank", "only the output of these ranks: 3, 0,8-11")
	cmd.Flags().Var(after, "since", "only output that is not older: 30s, 5m, 2h")
	cmd.Flags().BoolVar(&view.Stderr, "stderr", false, "only stderr")
	cmd.Flags().StringVar(&view.Style.Style, "prefix", "host", "prefix of lines, as gorun --prefix")
	cmd.Flags().BoolVar(&view.Style.Timestamp, "timestamp", false, "start lines with the time at which they came")
	return func() jobs.View {
		view.Ranks = *ranks
		view.Since = time.Duration(*after)
		for fd, w := range []any{1: io.out, 2: io.errs} {
			f, is := w.(*os.File)
			view.Screen[fd] = is && term.IsTerminal(int(f.Fd()))
			view.Style.Color[fd] = ui.UseColor("auto", view.Screen[fd], os.LookupEnv)
		}
		return *view
	}
}

func newLogs(io jobsIO) *cobra.Command {
	var view jobs.View
	var follow bool
	cmd := oneJob(&cobra.Command{
		Use:   "logs [flags] JOB",
		Short: "Print the output of a job",
		Long: `logs prints the output of a job: of a detached job all that is kept, the last 64 MiB, also for seven days after its
end; of a running job with a terminal the last 2 MiB.`,
		Example: `  gorun logs g7k2
  gorun logs -f --rank 3 train
  gorun logs --since 5m --stderr train`,
	})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with new output until the job ends")
	complete := addView(cmd, &view, io, 0)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return jobs.Logs(cmd.Context(), control.FindPlace(os.Getenv), args[0], complete(), follow, io.out, io.errs)
	}
	return cmd
}

func newAttach(io jobsIO) *cobra.Command {
	var view jobs.View
	terminal := -1
	cmd := oneJob(&cobra.Command{
		Use:   "attach [flags] JOB",
		Short: "Show a running job as if it had been started here",
		Long: `attach prints the output of a running job, from the last ten seconds on, and ends with the job, with its exit code.
Ctrl-C stops the job. Ctrl-P Ctrl-Q, or an end of attach by any signal, leaves it running. --terminal connects with the
terminal of one rank, which a job started with --panes has; all keys go to the rank.`,
		Example: `  gorun attach g7k2
  gorun attach --terminal 3 g7k2
  gorun attach --since 5m train`,
	})
	complete := addView(cmd, &view, io, settings.Seconds(10*time.Second))
	cmd.Flags().IntVar(&terminal, "terminal", -1, "the rank whose terminal to connect with this one")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if cmd.Flags().Changed("terminal") {
			*io.code, err = jobs.Terminal(cmd.Context(), control.FindPlace(os.Getenv), args[0], terminal, io.in, io.out,
				io.console)
			return err
		}
		*io.code, err = jobs.Attach(cmd.Context(), control.FindPlace(os.Getenv), args[0], complete(), io.in, io.out,
			io.errs, io.console)
		return err
	}
	return cmd
}

func newWait(io jobsIO) *cobra.Command {
	cmd := oneJob(&cobra.Command{
		Use:   "wait JOB",
		Short: "Wait for the end of a job",
		Long: "wait waits until a job has ended, and exits with its exit code, also if it has ended within the last " +
			"seven days.",
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		*io.code, err = jobs.Wait(cmd.Context(), control.FindPlace(os.Getenv), args[0], io.console)
		return err
	}
	return cmd
}

func newKill(io jobsIO) *cobra.Command {
	signal := "TERM"
	ranks := new(settings.Ranks)
	cmd := oneJob(&cobra.Command{
		Use:   "kill [flags] JOB",
		Short: "Stop a running job, or signal its ranks",
		Long: `kill stops a job as a signal to its gorun does: TERM, INT and HUP end it with the grace of --grace, KILL at once. It
does not wait for the end: gorun wait does. Other signals go to the process groups of all ranks, and with --rank any
signal goes to those of some. A rank that such a signal ends has failed, and the job with it.`,
		Example: `  gorun kill g7k2
  gorun kill --signal KILL train
  gorun kill --signal USR1 --rank 3 train`,
	})
	cmd.Flags().StringVar(&signal, "signal", signal, "a signal by name or number")
	cmd.Flags().Var(ranks, "rank", "only these ranks: 3, 0,8-11")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		number, err := signalNumber(signal)
		if err != nil {
			return err
		}
		return jobs.Kill(cmd.Context(), control.FindPlace(os.Getenv), args[0], number, *ranks)
	}
	return cmd
}

func newExec(io jobsIO) *cobra.Command {
	rank := 0
	host := ""
	cmd := &cobra.Command{
		Use:   "exec [flags] JOB COMMAND [ARGUMENTS]",
		Short: "Run a command where a rank of a running job runs",
		Long: `exec runs a command on the host of a rank, in the rank's environment and directory, over the connection that the job
has already. It has a terminal if gorun has one. No shell reads its words. The exit code is the command's. It ends with
the job, and with this gorun.`,
		Example: `  gorun exec g7k2 nvidia-smi
  gorun exec --rank 3 train bash
  gorun exec --host f2 train sh -c 'df -h $TMPDIR'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage.Errorf("for example gorun exec --rank 3 g7k2 bash", "gorun exec takes a job and a command")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			what := control.Exec{Rank: rank, Host: host, Argv: args[1:]}
			if host != "" {
				what.Rank = -1
			}
			*io.code, err = jobs.Exec(cmd.Context(), control.FindPlace(os.Getenv), args[0], what, io.in, io.out,
				io.errs, io.console)
			return err
		},
	}
	cmd.ValidArgsFunction = completeJobs
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().SortFlags = false
	cmd.Flags().IntVar(&rank, "rank", 0, "the rank whose host, environment and directory it gets")
	cmd.Flags().StringVar(&host, "host", "", "a host by its name in the job, instead of a rank")
	cmd.MarkFlagsMutuallyExclusive("rank", "host")
	return cmd
}

func newStacks(io jobsIO) *cobra.Command {
	var view jobs.StacksView
	ranks := new(settings.Ranks)
	cmd := oneJob(&cobra.Command{
		Use:   "stacks [flags] JOB",
		Short: "Show what the ranks of a running job do now",
		Long: `stacks prints which ranks others wait for in a collective of ring, and the stacks of all ranks and of the processes
below them as one tree, what few ranks do first. Python tells its stack itself if the program has imported gorun, or
through py-spy, if it is in the rank's PATH; programs that use ring in Go tell those of their goroutines; of other
programs eu-stack or gdb reads them. No rank is stopped for longer than a debugger needs.`,
		Example: `  gorun stacks g7k2
  gorun stacks --rank 3 --full train`,
	})
	cmd.Flags().Var(ranks, "rank", "only these ranks: 3, 0,8-11")
	cmd.Flags().BoolVar(&view.Full, "full", false, "all functions of all threads, not 60 lines")
	cmd.Flags().BoolVar(&view.JSON, "json", false,
		"print a JSON object instead of a tree, also with sockets and the last 64 calls")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		view.Ranks = *ranks
		return jobs.Stacks(cmd.Context(), control.FindPlace(os.Getenv), args[0], view, io.out)
	}
	return cmd
}

// signalNumber returns the signal that a user names: TERM, SIGTERM or 15.
func signalNumber(text string) (syscall.Signal, error) {
	var n int
	if _, err := fmt.Sscanf(text, "%d", &n); err == nil && n > 0 && n < 65 {
		return syscall.Signal(n), nil
	}
	name := strings.ToUpper(text)
	if s := unix.SignalNum("SIG" + strings.TrimPrefix(name, "SIG")); s != 0 {
		return s, nil
	}
	return 0, usage.Errorf("for example TERM, KILL or USR1", "--signal %q: there is no such signal", text)
}
