package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gorun/gorun/cmd/gorun/internal/files"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher/survey"
	"github.com/gorun/gorun/launcher/transport"
)

// newCopy returns the command gorun cp, which copies files to the hosts that a run with the same
// flags would use.
func newCopy(run func(flags *pflag.FlagSet, o *settings.Options, r files.Request) error) *cobra.Command {
	var o settings.Options
	cmd := &cobra.Command{
		Use:   "cp [flags] FILE ... HOSTS:DIR",
		Short: "Copy files to many hosts, which pass them on",
		Long: `cp copies files of this machine into a folder of each host. They leave this machine once: hosts pass them on
over encrypted connections, and each checks every piece. A copy that was interrupted goes on where it stopped. Where
hosts cannot reach each other, each gets the files from here. HOSTS are as after -H; without them the flags count, or the
scheduler. DIR is made where it is missing, and begins at the home directory unless it is absolute.`,
		Example: `  gorun cp data.tar f1,f[2-8]:/var/tmp
  gorun cp --hostfile hosts.txt image.sif data.tar :/scratch
  gorun cp -H f1,f2 data.tar :`,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := files.Parse(args)
			if err != nil {
				return err
			}
			if r.Hosts != "" {
				if o.Hosts != "" || o.Hostfile != "" {
					return usage.Errorf("write :"+r.Dir+" last, or leave out -H and --hostfile",
						"hosts are given twice: by a flag, and as %s:%s", r.Hosts, r.Dir)
				}
				if err := cmd.Flags().Set("hosts", r.Hosts); err != nil {
					return err
				}
			}
			return run(cmd.Flags(), &o, r)
		},
	}
	cmd.Flags().SortFlags = false
	o.AddFlags(cmd.Flags())
	completeFlags(cmd)
	return cmd
}

// copyFiles copies files to the hosts of a run, and returns the exit code.
func copyFiles(ctx context.Context, o *settings.Options, r files.Request, console *ui.UI) (code int, err error) {
	where, opts, err := findListed(ctx, o, true, console)
	if err != nil {
		return 0, err
	}
	dial, err := transport.Dialer(o.Options)
	if err != nil {
		return 0, err
	}
	return files.Copy(ctx, r, where.Hosts, o.Network.Network, survey.Options{
		Dial:         dial,
		Exe:          opts.Exe,
		StartTimeout: opts.StartTimeout,
		Trace:        opts.Trace,
	}, console)
}
