package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/top"
	"github.com/gorun/gorun/internal/usage"
)

// topCommand is gorun top.
type topCommand struct {
	*invocation
	o     top.Options
	every settings.Seconds
}

func newTop(call *invocation) *cobra.Command {
	c := &topCommand{invocation: call, every: settings.Seconds(time.Second)}
	cmd := call.define(&cobra.Command{
		Use:   "top [flags] [JOB]",
		Short: "Show what the ranks and hosts of a running job use",
		Long: `top shows a live table of a job's ranks: state, CPU, memory, threads, storage, lines of output and
GPUs; and one of its hosts, with their networks. Without a job it shows the only one that runs.
Hosts are asked only while somebody looks. The key ? lists the keys.`,
		Example: `  gorun top
  gorun top g7k2
  gorun top --once train
  gorun top --once --json train`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage.Errorf("for example gorun top g7k2", "gorun top takes one job")
			}
			return nil
		},
		ValidArgsFunction: completeJobs,
	}, c)
	cmd.Flags().Var(&c.every, "interval", "time between two samples")
	cmd.Flags().BoolVar(&c.o.Once, "once", false, "print one table and end")
	cmd.Flags().BoolVar(&c.o.JSON, "json", false, "print a JSON object per sample, with --once one")
	return cmd
}

func (c *topCommand) Run(ctx context.Context) (code int, err error) {
	if c.o.Every = time.Duration(c.every); c.o.Every < 200*time.Millisecond || c.o.Every > time.Hour {
		return 0, usage.Errorf("for example --interval 2s", "--interval %v: expected a time from 200ms to 1h",
			c.o.Every)
	}
	return 0, top.Run(ctx, c.place(), append(c.args, "")[0], c.o, c.stdin, c.stdout, c.console)
}
