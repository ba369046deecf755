package main

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/cli/hosts"
	"github.com/gorun/gorun/internal/cli/job"
	"github.com/gorun/gorun/internal/cli/settings"
	"github.com/gorun/gorun/internal/cli/ui"
	"github.com/gorun/gorun/internal/cli/usage"
	"github.com/gorun/gorun/internal/transport"
	"github.com/gorun/gorun/launcher"
)

// newGPUs returns the command gorun gpus, which lists the GPUs that a run with the same flags would find.
func newGPUs(list listFunc) *cobra.Command {
	var o settings.Options
	var how hostsOptions
	cmd := &cobra.Command{
		Use:   "gpus [flags]",
		Short: "Show the GPUs of the hosts that a run would use",
		Long: `gpus asks the hosts that a run with the same flags would use for their NVIDIA GPUs, and
prints a line for each GPU. With -v it also prints what lies between them, MIG
instances and processes. The exit code is 1 when a host cannot be asked.`,
		Example: `  gorun gpus
  gorun gpus --hostfile hosts.txt
  gorun gpus -H f1,f2 --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage.Errorf("name hosts with -H: gorun gpus -H "+strings.Join(args, ","), "gorun gpus takes no program: %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return list(cmd.Flags(), &o, how) },
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&how.json, "json", false, "print a JSON object instead of a table")
	o.AddFlags(cmd.Flags())
	return cmd
}

// listGPUs prints the GPUs of the hosts of a run. The code is 1 if a host could not be queried.
func listGPUs(ctx context.Context, o *settings.Options, how hostsOptions, out io.Writer, console *ui.UI) (code int, err error) {
	where, err := hosts.Find(ctx, o, hosts.NewFinder(job.CoreCounter(o, console)))
	if err != nil {
		return 0, err
	}
	for _, w := range where.Warnings {
		console.Warningf("%s", w)
	}
	dial, err := transport.Dialer(o)
	if err != nil {
		return 0, err
	}
	exe, err := job.OwnExecutable()
	if err != nil {
		return 0, err
	}
	opts := launcher.Options{Dial: dial, Exe: exe, StartTimeout: time.Duration(o.StartTimeout), Trace: console.Tracef, GPUProgram: job.GPUProgram(exe.Path)}
	all := launcher.Inventory(ctx, where.Hosts, opts)
	if how.json {
		err = writeGPUsJSON(out, all)
	} else {
		err = ui.WriteGPUs(out, all, o.Verbose > 0)
	}
	var failed []launcher.HostError
	for _, g := range all {
		for _, w := range g.Warnings {
			console.Warningf("%s: %s", g.Host.Name, w)
		}
		if g.Err != nil {
			failed = append(failed, launcher.HostError{Host: g.Host.Name, Err: g.Err})
		}
	}
	if len(failed) > 0 {
		console.ReportHosts(failed)
		code = 1
	}
	return code, err
}

// writeGPUsJSON writes one JSON object.
func writeGPUsJSON(out io.Writer, all []launcher.GPUs) error {
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
			r.Error, r.Hint = g.Err.Error(), usage.Hint(g.Err)
		}
		list.Hosts = append(list.Hosts, r)
	}
	return json.NewEncoder(out).Encode(list)
}
