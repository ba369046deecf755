package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/cmd/gorun/internal/installed"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/survey"
	"github.com/gorun/gorun/launcher/transport"
)

// gpusCommand is gorun gpus, which lists the GPUs that a run with the same flags would find.
type gpusCommand struct {
	jobCommand
	json bool
}

func newGPUs(call *invocation) *cobra.Command {
	c := &gpusCommand{jobCommand: jobCommand{invocation: call}}
	cmd := &cobra.Command{
		Use:   "gpus [flags]",
		Short: "Show the GPUs of the hosts that a run would use",
		Long: `gpus asks the hosts that a run with the same flags would use for their NVIDIA GPUs, and prints a
line for each GPU. It runs the discovery script if there is one. With -v it also prints their links,
MIG instances and processes. The exit code is 1 if a host cannot be asked.`,
		Example: `  gorun gpus
  gorun gpus --hostfile hosts.txt
  gorun gpus -H f1,f2 --json`,
		Args: noProgram,
	}
	cmd.Flags().BoolVar(&c.json, "json", false, "print a JSON object instead of a table")
	return c.takeJobFlags(cmd, c, settings.Connects)
}

// Run prints the GPUs. The code is 1 if a host could not be asked.
func (c *gpusCommand) Run(ctx context.Context) (code int, err error) {
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
	reach.GPUProgram = installed.GPUProgram(reach.Exe.Path)
	all := survey.Inventory(ctx, where.Hosts, reach)
	if c.json {
		err = writeGPUsJSON(c.plain, all)
	} else {
		err = ui.WriteGPUs(c.plain, all, c.o.Verbose > 0)
	}
	var failed []launcher.HostError
	for _, g := range all {
		for _, w := range g.Warnings {
			c.console.Warningf("%s: %s", g.Host.Name, w)
		}
		if g.Err != nil {
			failed = append(failed, launcher.HostError{Host: g.Host.Name, Err: g.Err})
		}
	}
	return reportFailed(failed, c.console), err
}

func writeGPUsJSON(out io.Writer, all []survey.GPUs) error {
	type row struct {
		Host     string       `json:"host"`
		GPUs     []gpu.Device `json:"gpus"`
		Warnings []string     `json:"warnings,omitempty"`
		Error    string       `json:"error,omitempty"`
		Hint     string       `json:"hint,omitempty"`
	}
	list := struct {
		Hosts []row `json:"hosts"`
	}{[]row{}}
	for _, g := range all {
		r := row{Host: g.Host.Name, GPUs: g.Devices, Warnings: g.Warnings}
		if r.GPUs == nil {
			r.GPUs = []gpu.Device{}
		}
		if g.Err != nil {
			r.Error = g.Err.Error()
			r.Hint = usage.Hint(g.Err)
		}
		list.Hosts = append(list.Hosts, r)
	}
	return ui.WriteJSON(out, list, "")
}
