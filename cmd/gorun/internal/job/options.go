package job

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/hosts"
	"github.com/gorun/gorun/cmd/gorun/internal/installed"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/session"
	"github.com/gorun/gorun/launcher/survey"
	"github.com/gorun/gorun/launcher/transport"
	"github.com/gorun/gorun/launcher/transport/srun"
)

// launchOptions converts options and environment to the launcher's Options.
func launchOptions(o *settings.Options, plan launcher.Plan, env environment, io Streams,
	console *ui.UI) (launcher.Options, error) {
	tree, err := stagedFolder(o, o.Launcher != "local" && (hasRemoteHost(plan) || o.HostsChange()))
	if err != nil {
		return launcher.Options{}, err
	}
	python, err := stagedPython(o.StageEnv, o.StageBase)
	if err != nil {
		return launcher.Options{}, err
	}
	exe, err := installed.Own()
	if err != nil {
		return launcher.Options{}, err
	}
	dial, err := transport.Dialer(togetherIn(o, plan, exe, console))
	if err != nil {
		return launcher.Options{}, err
	}
	mpi, err := installed.OpenMPI(exe.Path, o.MPI.Way, console.Tracef)
	if err != nil {
		return launcher.Options{}, err
	}
	opts := launcher.Options{
		Settings: launcher.Settings{
			Encrypt:         o.Encrypt,
			NoNewPrivileges: o.NoNewPrivileges,
			Binding:         o.Binding(),
			Launcher:        o.StandsFor,
		},
		Programs:       env.programs,
		Env:            env.shared,
		Work:           tree,
		Python:         python,
		Network:        o.Network.Network,
		MPI:            o.MPI.Way,
		MPIHelper:      mpi,
		ReportBindings: o.ReportBindings,
		GPUs:           o.GPUsPerRank.GPURequest,
		Reach:          reach(o, exe, dial, console),
		MPITimeout:     time.Duration(o.MPITimeout),
		Grace:          time.Duration(o.Grace),
		Codes:          o.Codes,
		Tolerate:       launcher.Tolerance(o.KeepGoing),
	}
	if opts.StdinRank, err = o.Stdin.Rank(plan.Size); err != nil {
		return launcher.Options{}, err
	}
	return opts, outputOptions(&opts, o, plan, io)
}

// reach returns how the hosts of a run are reached.
func reach(o *settings.Options, exe launcher.Executable, dial launcher.Dialer, console *ui.UI) launcher.Reach {
	return launcher.Reach{
		Dial:         dial,
		Exe:          exe,
		StartTimeout: time.Duration(o.StartTimeout),
		Trace:        console.Tracef,
		Note:         func(text string) { console.Notef("%s", text) },
		GPUProgram:   installed.GPUProgram(exe.Path),
	}
}

// togetherIn returns the transport's options for a job. Its Slurm nodes share a step unless the job
// is elastic.
func togetherIn(o *settings.Options, plan launcher.Plan, exe launcher.Executable, console *ui.UI) transport.Options {
	options := o.Options
	if o.DryRun {
		return options
	}
	options.Together = &srun.Together{
		Argv:   func() []string { return session.Command(nil, exe.Paths(), srun.Command) },
		Build:  exe.Build,
		Within: max(stepTime, time.Duration(o.StartTimeout)/3),
		Note:   console.Notef,
		Trace:  console.Tracef,
	}
	if o.Elastic.Given() {
		options.Together.Apart = "nodes of an elastic job come and go"
	}
	for _, h := range plan.Hosts {
		options.Together.Nodes = append(options.Together.Nodes, h.Name)
	}
	return options
}

// stepTime is the least time for the nodes of a Slurm job to connect back.
const stepTime = 10 * time.Second

// Helper returns the options of a job whose ranks run argv, a command of gorun itself, with the
// connections and the environment of a run.
func Helper(o *settings.Options, plan launcher.Plan, argv []string, console *ui.UI) (launcher.Options, error) {
	env, err := prepareAll(os.Environ(), []program{{argv: argv, opts: o}}, plan.Size)
	if err != nil {
		return launcher.Options{}, err
	}
	return launchOptions(o, plan, env, Streams{}, console)
}

// Samples returns what the agents of hosts, by their names, would be told of a job of o whose
// program is argv.
func Samples(ctx context.Context, o *settings.Options, argv []string, console *ui.UI) (map[string]wire.Job, error) {
	sampled := *o
	sampled.Wdir = "/" // the job's own may be missing there
	finder := hosts.NewFinder(UnitCounter(o, console))
	_, plan, err := planJob(ctx, &sampled, []program{{argv: argv, opts: &sampled}}, finder)
	if err != nil {
		return nil, err
	}
	opts, err := Helper(&sampled, plan, argv, console)
	if err != nil {
		return nil, err
	}
	samples := map[string]wire.Job{}
	for i, h := range plan.Hosts {
		samples[h.Name] = launcher.Describe(plan, opts, i)
	}
	return samples, nil
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

// workingDir returns the absolute path of the ranks' directory, the same on every host. It keeps
// the path by which the user reached the current directory.
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

// UnitCounter returns a function that connects to hosts and counts their cores, sockets, GPUs and
// the like.
func UnitCounter(o *settings.Options, console *ui.UI) hosts.Counter {
	return func(ctx context.Context, hosts []hostfile.Host, unit string) ([]int, error) {
		exe, err := installed.Own()
		if err != nil {
			return nil, err
		}
		dial, err := transport.Dialer(o.Options)
		if err != nil {
			return nil, err
		}
		by := reach(o, exe, dial, console)
		console.Tracef("counting the units of %s", prose.Count(len(hosts), "host"))
		switch unit {
		case settings.UnitAuto:
			return launcher.Count(ctx, hosts, survey.UnitCores, by)
		case settings.UnitGPU, settings.UnitGPUOrOne:
			return launcher.Count(ctx, hosts, survey.UnitGPUs, by)
		case settings.UnitGPUOrCore:
			gpus, err := launcher.Count(ctx, hosts, survey.UnitGPUs, by)
			if err != nil || !slices.Contains(gpus, 0) {
				return gpus, err
			}
			cores, err := launcher.Count(ctx, hosts, survey.UnitCores, by)
			for i := range cores {
				if gpus[i] > 0 {
					cores[i] = gpus[i]
				}
			}
			return cores, err
		}
		return launcher.Count(ctx, hosts, unit, by)
	}
}
