package job

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/agent"
	"github.com/gorun/gorun/internal/cli/settings"
	"github.com/gorun/gorun/internal/cli/ui"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/transport"
	"github.com/gorun/gorun/launcher"
)

// launchOptions converts options and environment to the launcher's Options.
func launchOptions(o *settings.Options, plan launcher.Plan, env environment, io Streams, console *ui.UI) (launcher.Options, error) {
	tree, err := stagedFolder(o, o.Launcher != "local" && (hasRemoteHost(plan) || o.Elastic.Discovery != ""))
	if err != nil {
		return launcher.Options{}, err
	}
	exe, err := OwnExecutable()
	if err != nil {
		return launcher.Options{}, err
	}
	dial, err := transport.Dialer(o.Options)
	if err != nil {
		return launcher.Options{}, err
	}
	mpi, err := openMPI(exe.Path, o.MPI.Way, console.Tracef)
	if err != nil {
		return launcher.Options{}, err
	}
	opts := launcher.Options{Programs: env.programs, Env: env.shared, Work: tree, Network: o.Network.Network, Encrypt: o.Encrypt, NoNewPrivileges: o.NoNewPrivileges, MPI: mpi, Binding: o.Binding(),
		ReportBindings: o.ReportBindings, GPUs: o.GPUsPerRank.GPURequest, GPUProgram: GPUProgram(exe.Path), Dial: dial, Exe: exe,
		StartTimeout: time.Duration(o.StartTimeout), MPITimeout: time.Duration(o.MPITimeout), Grace: time.Duration(o.Grace),
		Note: func(text string) { console.Notef("%s", text) }, Trace: console.Tracef}
	if opts.StdinRank, err = o.Stdin.Rank(plan.Size); err != nil {
		return launcher.Options{}, err
	}
	return opts, outputOptions(&opts, o, plan, io)
}

func hasRemoteHost(plan launcher.Plan) bool {
	hostname, _ := os.Hostname()
	for _, h := range plan.Hosts {
		if !transport.IsLocal(h.Host, hostname) {
			return true
		}
	}
	return false
}

// workingDir returns the absolute path of the ranks' directory, the same on every host. It keeps the path by which the
// user reached the current directory.
func workingDir(named string) (string, error) {
	if filepath.IsAbs(named) {
		return filepath.Clean(named), nil
	}
	current, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the current directory: %w", err)
	}
	return filepath.Join(current, named), nil
}

// OwnExecutable describes the running gorun, which the launcher starts on hosts.
func OwnExecutable() (launcher.Executable, error) {
	path, err := os.Executable()
	if err != nil {
		return launcher.Executable{}, fmt.Errorf("find gorun itself: %w", err)
	}
	build, err := agent.Build("/proc/self/exe")
	if err != nil {
		return launcher.Executable{}, fmt.Errorf("read gorun itself: %w", err)
	}
	hash := sync.OnceValues(func() (string, error) { return agent.Hash("/proc/self/exe") })
	return launcher.Executable{Path: path, Build: build, Hash: hash}, nil
}

// CoreCounter returns a function that connects to hosts and counts their cores.
func CoreCounter(o *settings.Options, console *ui.UI) func(context.Context, []hostfile.Host) ([]int, error) {
	return func(ctx context.Context, hosts []hostfile.Host) ([]int, error) {
		exe, err := OwnExecutable()
		if err != nil {
			return nil, err
		}
		dial, err := transport.Dialer(o.Options)
		if err != nil {
			return nil, err
		}
		if o.StartTimeout > 0 {
			var cancel context.CancelFunc
			late := fmt.Errorf("counting its cores took longer than %v (--start-timeout)", time.Duration(o.StartTimeout))
			ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(o.StartTimeout), late)
			defer cancel()
		}
		console.Tracef("counting the cores of %s", prose.Count(len(hosts), "host"))
		return launcher.Cores(ctx, hosts, launcher.Options{Dial: dial, Exe: exe, Trace: console.Tracef})
	}
}
