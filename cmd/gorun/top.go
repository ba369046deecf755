package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/top"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/usage"
)

func newTop(io jobsIO) *cobra.Command {
	var o top.Options
	every := settings.Seconds(time.Second)
	cmd := &cobra.Command{
		Use:   "top [flags] [JOB]",
		Short: "Show what the ranks and hosts of a running job use",
		Long: `top shows a live table of a job's ranks: state, CPU, memory, threads, storage, lines of output and GPUs; and one of its
hosts, with their networks. Without a job it shows the only one that runs. Hosts are asked only while somebody looks. The key ? lists
the keys.`,
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
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Every = time.Duration(every); o.Every < 200*time.Millisecond || o.Every > time.Hour {
				return usage.Errorf("for example --interval 2s", "--interval %v: expected a time from 200ms to 1h",
					o.Every)
			}
			return top.Run(cmd.Context(), control.FindPlace(os.Getenv), append(args, "")[0], o, io.in, io.out,
				io.console)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().Var(&every, "interval", "time between two samples")
	cmd.Flags().BoolVar(&o.Once, "once", false, "print one table and end")
	cmd.Flags().BoolVar(&o.JSON, "json", false, "print a JSON object per sample, with --once one")
	return cmd
}
