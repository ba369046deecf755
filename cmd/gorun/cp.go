package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/cmd/gorun/internal/files"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher/transport"
)

// copyCommand is gorun cp, which copies files to the hosts that a run with the same flags would
// use, and back.
type copyCommand struct{ jobCommand }

func newCopy(call *invocation) *cobra.Command {
	c := &copyCommand{jobCommand{invocation: call}}
	return c.takeJobFlags(&cobra.Command{
		Use:   "cp [flags] FILE ... HOSTS:DIR | HOSTS:FILE ... DIR",
		Short: "Copy files to many hosts, which pass them on, and back",
		Long: `cp copies files of this machine into a folder of each host. They leave this machine once: hosts pass
them on over encrypted connections, and each checks every piece. A copy that was interrupted goes on
where it stopped. Where hosts cannot reach each other, each gets the files from here. HOSTS are as
after -H; without them the flags count, or the scheduler. DIR is made where it is missing. Paths on
hosts begin at the home directory unless they are absolute.

With HOSTS first, cp copies files and folders of hosts into DIR of this machine: straight into it
from one host, and into a folder for each of several. As with cp and scp, one file of one host may
get a name: where DIR is no folder, and does not end with /, it becomes that file. Each host expands
patterns: *, ? and [a-z]. Quote them.`,
		Example: `  gorun cp data.tar f1,f[2-8]:/var/tmp
  gorun cp --hostfile hosts.txt image.sif data.tar :/scratch
  gorun cp -H f1,f2 data.tar :
  gorun cp 'f1,f2:/var/tmp/ckpt/*.pt' ckpt
  gorun cp f1:log/train.log f1.log`,
	}, c, settings.Copies)
}

// Run copies the files. The code is 1 if a host lacks some, or does not bring some.
func (c *copyCommand) Run(ctx context.Context) (code int, err error) {
	r, err := files.Parse(c.args)
	if err != nil {
		return 0, err
	}
	if r.Hosts != "" {
		if c.o.Hosts != "" || c.o.Hostfile != "" {
			return 0, usage.Errorf("write : without hosts before the path, or leave out -H and --hostfile",
				"hosts are given twice: by a flag, and as %s:", r.Hosts)
		}
		if err := c.flags.Set("hosts", r.Hosts); err != nil {
			return 0, err
		}
	}
	if _, err := c.complete(); err != nil {
		return 0, err
	}
	where, reach, err := c.find(ctx, true)
	if err != nil {
		return 0, err
	}
	if reach.Dial, err = transport.Dialer(c.o.Options); err != nil {
		return 0, err
	}
	if len(r.From) > 0 {
		return files.Bring(ctx, r, where.Hosts, reach, c.console)
	}
	return files.Copy(ctx, r, where.Hosts, c.o.Network.Network, reach, c.console)
}
