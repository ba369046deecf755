package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/cmd/gorun/internal/files"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher/survey"
	"github.com/gorun/gorun/launcher/transport"
)

// copyCommand is gorun cp, which copies files to the hosts that a run with the same flags would
// use.
type copyCommand struct{ jobCommand }

func newCopy(call *invocation) *cobra.Command {
	c := &copyCommand{jobCommand{invocation: call}}
	return c.takeJobFlags(&cobra.Command{
		Use:   "cp [flags] FILE ... HOSTS:DIR",
		Short: "Copy files to many hosts, which pass them on",
		Long: `cp copies files of this machine into a folder of each host. They leave this machine once: hosts pass
them on over encrypted connections, and each checks every piece. A copy that was interrupted goes on
where it stopped. Where hosts cannot reach each other, each gets the files from here. HOSTS are as
after -H; without them the flags count, or the scheduler. DIR is made where it is missing, and
begins at the home directory unless it is absolute.`,
		Example: `  gorun cp data.tar f1,f[2-8]:/var/tmp
  gorun cp --hostfile hosts.txt image.sif data.tar :/scratch
  gorun cp -H f1,f2 data.tar :`,
	}, c, settings.Copies)
}

// Run copies the files. The code is 1 if a host lacks some.
func (c *copyCommand) Run(ctx context.Context) (code int, err error) {
	r, err := files.Parse(c.args)
	if err != nil {
		return 0, err
	}
	if r.Hosts != "" {
		if c.o.Hosts != "" || c.o.Hostfile != "" {
			return 0, usage.Errorf("write :"+r.Dir+" last, or leave out -H and --hostfile",
				"hosts are given twice: by a flag, and as %s:%s", r.Hosts, r.Dir)
		}
		if err := c.flags.Set("hosts", r.Hosts); err != nil {
			return 0, err
		}
	}
	if _, err := c.complete(); err != nil {
		return 0, err
	}
	where, opts, err := c.find(ctx, true)
	if err != nil {
		return 0, err
	}
	dial, err := transport.Dialer(c.o.Options)
	if err != nil {
		return 0, err
	}
	return files.Copy(ctx, r, where.Hosts, c.o.Network.Network, survey.Options{
		Dial:         dial,
		Exe:          opts.Exe,
		StartTimeout: opts.StartTimeout,
		Trace:        opts.Trace,
	}, c.console)
}
