package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/cmd/gorun/internal/jobs"
	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/sight/report"
	"github.com/gorun/gorun/internal/sight/watch/record"
	"github.com/gorun/gorun/internal/usage"
)

// reportCommand is gorun report.
type reportCommand struct {
	*invocation
	to   string // "": beside the record; -: standard output
	logs []string
	loss string
	live string
	port int
}

func newReport(call *invocation) *cobra.Command {
	c := &reportCommand{invocation: call}
	cmd := call.define(&cobra.Command{
		Use:   "report [flags] DIR...",
		Short: "Write a page about a run that --record has recorded, or compare several",
		Long: `report reads a folder that gorun --record DIR has written, also while the job runs or after gorun
was killed, and writes one HTML page: how the run ended, its events and ranks over time, what they
and their hosts used, and ranks that stand out. Of several folders it compares the runs. If the job
has printed lines such as "step 10 loss 0.5", and its output was kept (--detach) or is given, the
page has the loss. It needs no network. With --live it offers the page of a running job to your
browser, at an address that only you can read, and keeps it up to date.`,
		Example: `  gorun --record run1 -np 8 ./train
  gorun report run1
  gorun report -o train.html run1
  gorun report --log train.log run1
  gorun report run1 run2
  gorun report --live train`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case c.live != "" && len(args) > 0:
				return usage.Errorf("leave the folder out", "--live shows a running job, and %s is a folder", args[0])
			case c.live == "" && len(args) == 0:
				return usage.Errorf("for example gorun --record run1 -np 8 ./train, then gorun report run1",
					"gorun report takes the folder of a record")
			}
			return nil
		},
		ValidArgsFunction: completeRecords,
	}, c)
	cmd.Flags().StringVarP(&c.to, "output", "o", "",
		"file for the page (default: report.html in DIR, or comparison.html in the first of several); "+
			"- is standard output")
	cmd.Flags().StringArrayVar(&c.logs, "log", nil, "a file with the run's output, once for each DIR")
	cmd.Flags().StringVar(&c.live, "live", "", "the page of this running `job`, at an address of this machine")
	_ = cmd.RegisterFlagCompletionFunc("live", completeJobs) // an error means a missing or registered flag
	cmd.Flags().IntVar(&c.port, "port", 0, "the port of --live (default: any free one)")
	cmd.Flags().StringVar(&c.loss, "loss", report.LossPattern, "regular expression with the groups step and loss")
	return cmd
}

// completeRecords completes a folder with a record, or any if none fits.
func completeRecords(_ *cobra.Command, _ []string, typed string) (names []cobra.Completion,
	_ cobra.ShellCompDirective) {
	in, begins := filepath.Split(typed)
	entries, _ := os.ReadDir(cmp.Or(in, "."))
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), begins) || !isPlainWord(in+e.Name()) {
			continue
		}
		if record.In(filepath.Join(in, e.Name())) {
			names = append(names, in+e.Name())
		}
	}
	if names == nil {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (c *reportCommand) Run(ctx context.Context) (code int, err error) {
	if c.live != "" {
		return 0, jobs.Page(ctx, c.place(), c.live, c.port, c.console)
	}
	pattern, err := report.LossExpression(c.loss)
	if err != nil {
		return 0, usage.Errorf("for example --loss 'iter (?P<step>[0-9]+): (?P<loss>[0-9.]+)'", "--loss: %w", err)
	}
	if len(c.logs) > len(c.args) {
		return 0, usage.Errorf("give one --log for each folder, in their order", "%d times --log for %d folders",
			len(c.logs), len(c.args))
	}
	var runs []report.Run
	for i, dir := range c.args {
		run, err := readRun(dir)
		if err != nil {
			return 0, err
		}
		if i < len(c.logs) {
			run.Loss, err = lossesOf(c.logs[i], pattern)
		} else {
			run.Loss, err = c.keptLosses(ctx, run.Record.Run.ID, pattern)
		}
		if err != nil {
			return 0, err
		}
		runs = append(runs, run)
	}
	if c.to == "-" {
		return 0, report.Write(c.stdout, runs...)
	}
	name := "report.html"
	if len(runs) > 1 {
		name = "comparison.html"
	}
	to := cmp.Or(c.to, filepath.Join(c.args[0], name))
	err = writeFile(to, "name a file that you may write to: -o FILE", func(w io.Writer) error {
		return report.Write(w, runs...)
	})
	if err != nil {
		return 0, err
	}
	c.console.Notef("the report is %s", to)
	return 0, nil
}

func readRun(dir string) (report.Run, error) {
	all, err := record.Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return report.Run{}, usage.Errorf("gorun --record DIR ... makes one", "%s holds no record of a run: %w", dir,
			err)
	}
	if err != nil {
		return report.Run{}, fmt.Errorf("read the record in %s: %w", dir, err)
	}
	return report.Run{Record: all, Name: filepath.Base(dir)}, nil
}

func lossesOf(name string, pattern *regexp.Regexp) ([]report.Value, error) {
	file, err := trust.Open(name)
	if err != nil {
		return nil, usage.Errorf("name a file with the output of the run", "--log: %w", err)
	}
	defer file.Close()
	return report.Losses(file, pattern)
}

// keptLosses reads the losses in the output of a job, or none if its output was not kept.
func (c *reportCommand) keptLosses(ctx context.Context, id string, pattern *regexp.Regexp) ([]report.Value, error) {
	job, err := c.place().Find(ctx, id)
	if none := (*control.NoJobError)(nil); errors.As(err, &none) || err == nil && job.Log == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lines, to := io.Pipe()
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		view := jobs.View{}
		view.Style.Style = "none"
		to.CloseWithError(jobs.Logs(ctx, c.place(), id, view, false, to, to))
	}()
	losses, err := report.Losses(lines, pattern)
	lines.Close()
	<-printed
	return losses, err
}
