package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/agent"
	"github.com/gorun/gorun/internal/cli/usage"
	"github.com/gorun/gorun/internal/inventory"
	"github.com/gorun/gorun/internal/memexec"
	"github.com/gorun/gorun/launcher"
)

// newGPUs is `gorun gpus`: what GPUs a run with the same flags would find.
func newGPUs(list listFunc) *cobra.Command {
	var o runOptions
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
				return usage.Errorf("name hosts with -H: gorun gpus -H "+strings.Join(args, ","), "gpus runs nothing, so what is %q?", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return list(cmd.Flags(), &o, how) },
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&how.json, "json", false, "print a JSON object instead of a table")
	o.addFlags(cmd.Flags())
	return cmd
}

// listGPUs prints the GPUs of the hosts where a run would run. It returns 1 when a host could not be asked.
func listGPUs(ctx context.Context, o *runOptions, how hostsOptions, out io.Writer, say *ui) (code int, err error) {
	where, err := whereToRun(ctx, o, newSurroundings(coreCounter(o, say)))
	if err != nil {
		return 0, err
	}
	for _, w := range where.warnings {
		say.warningf("%s", w)
	}
	dial, err := dialer(o)
	if err != nil {
		return 0, err
	}
	exe, err := ownExecutable()
	if err != nil {
		return 0, err
	}
	opts := launcher.Options{Dial: dial, Exe: exe, StartTimeout: time.Duration(o.startTimeout), Trace: say.tracef, GPUProgram: gpuProgram(exe.Path)}
	all := launcher.Inventory(ctx, where.hosts, opts)
	if how.json {
		err = writeGPUsJSON(out, all)
	} else {
		err = writeGPUs(out, all, o.verbose > 0)
	}
	var failed []launcher.HostError
	for _, g := range all {
		for _, w := range g.Warnings {
			say.warningf("%s: %s", g.Host.Name, w)
		}
		if g.Err != nil {
			failed = append(failed, launcher.HostError{Host: g.Host.Name, Err: g.Err})
		}
	}
	if len(failed) > 0 {
		say.reportHosts(failed)
		code = 1
	}
	return code, err
}

// gpuProgram makes the gorun-gpu that hosts with GPUs are sent, once: the one beside gorun, if there is one.
func gpuProgram(gorun string) func() ([]byte, error) {
	return sync.OnceValues(func() ([]byte, error) {
		program, err := os.ReadFile(filepath.Join(filepath.Dir(gorun), "gorun-gpu"))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read gorun-gpu: %w", err)
		}
		return memexec.Pack(program)
	})
}

// writeGPUsJSON writes one object.
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

// runInventory is gorun on a host that tells of its GPUs.
func runInventory(args []string) int {
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "gorun: this command is internal to gorun")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	build, err := agent.Build("/proc/self/exe")
	if err == nil {
		err = inventory.Serve(ctx, leased{os.Stdin}, os.Stdout, inventory.Options{Nonce: args[1], Build: build, Sources: gpu.Machine("")})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gorun:", err)
		return launcher.CodeLaunch
	}
	return 0
}
