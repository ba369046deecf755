// Package settings holds the flags of a run and fills them from the command line, the environment,
// configuration files and job files.
package settings

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/route"
	"github.com/gorun/gorun/launcher/transport"
)

// Options holds the flags of a run.
type Options struct {
	NP              int
	Nodes           count
	Hosts           string
	Hostfile        string
	noOversubscribe bool
	placement
	Elastic ElasticOptions

	Exports  []string
	EnvFiles []string
	Unset    []string
	NoEnv    bool
	Wdir     string
	Stdin    stdinChoice

	Stage      string
	StageLimit ByteSize
	StageEnv   string
	StageBase  string

	transport.Options

	Network         network
	Encrypt         bool
	NoNewPrivileges bool
	MPI             mpiFlag
	MaxSpawn        spawnLimit

	StartTimeout Seconds
	MPITimeout   Seconds // StartTimeout where the user has set it, else 0
	Timeout      Seconds
	Grace        Seconds

	Prefix         string
	TagOutput      bool
	Timestamp      bool
	Color          string
	Show           Ranks
	ShowLocal      Ranks
	Hide           hidden
	MergeStderr    bool
	OutputFilename string
	Save           saveFiles
	ResultDir      string
	ResultLimit    ByteSize
	Summary        bool
	Quiet          bool
	JSONEvents     string

	Checkup Checkup
	Control Control
	Tools   Tools
	Hang    Hang
	Watch   Watch

	Config     string
	JobFile    string
	dialect    string
	DisplayMap bool
	DryRun     bool
	JSON       bool
	EnvFlags   bool
	Verbose    int
}

// AddFlags binds o to flags and sets their defaults.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	o.StartTimeout = Seconds(60 * time.Second)
	o.Grace = Seconds(5 * time.Second)
	flags.IntVarP(&o.NP, "np", "n", 0, "ranks to start (default: one per slot)")
	flags.StringVarP(&o.Hosts, "hosts", "H", "",
		"hosts and slots: f1:2,f[2-8]:2,^f5 (default: from the scheduler, else this machine)")
	flags.StringVar(&o.Hostfile, "hostfile", "", "file with a host per line: f1 slots=2; -H selects among them")
	flags.Var(&o.Ppn, "ppn", "ranks on each host, regardless of its slots: N, N:UNIT for each socket, numa, l3cache, "+
		"l2cache, core, hwthread or gpu, or auto (one per core)")
	flags.Var(&o.Nodes, "nodes", "use the first N hosts, with an equal share of the ranks")
	flags.BoolVar(&o.noOversubscribe, "no-oversubscribe", false, "refuse more ranks than slots")
	o.placement.addFlags(flags)
	o.Checkup.addFlags(flags)
	o.Elastic.addFlags(flags)

	flags.StringArrayVarP(&o.Exports, "export", "x", nil, "send a variable: NAME, NAME=value or PREFIX*")
	flags.StringArrayVar(&o.EnvFiles, "env-file", nil, "file of variables to send, one NAME=value or NAME per line")
	flags.StringArrayVar(&o.Unset, "unset-env", nil, "do not send a variable: NAME or PREFIX*")
	flags.BoolVar(&o.NoEnv, "no-env", false, "send only what --export and --env-file name")
	flags.StringVar(&o.Wdir, "wdir", "", "working directory of the ranks (default: the current one)")
	flags.StringVar(&o.Stage, "stage", "",
		"folder to start ranks in, copied to hosts that lack it, except files named in its .gorunignore")
	flags.StringVar(&o.StageEnv, "stage-env", "",
		"virtual environment or conda prefix that ranks run in, copied once to a disk of each host")
	flags.StringVar(&o.StageBase, "stage-env-dir", "", "folder for such copies on hosts, on a disk of their own "+
		"(default /var/tmp/gorun-UID/env, else ~/.cache/gorun/env)")
	flags.Var(&o.StageLimit, "stage-limit", "largest folder to stage: 500M, 20G (default 1G and 10,000 files)")
	flags.Var(&o.Stdin, "stdin", "ranks that read gorun's standard input: a rank, all or none (default: rank 0)")

	flags.StringVar(&o.Launcher, "launcher", "auto", "transport to hosts: ssh, srun, system-ssh (the ssh program), "+
		"rsh (the --launch-agent program), local (run every host here), or auto (srun in a Slurm job, else ssh)")
	flags.StringVar(&o.RSHAgent, "launch-agent", "",
		"program that replaces the built-in SSH client, run as PROGRAM ARGS HOST COMMAND")
	flags.StringArrayVar(&o.RSHArgs, "launch-agent-args", nil,
		"more arguments for --launch-agent, or for ssh with --launcher system-ssh; may be repeated")
	flags.StringVarP(&o.SSHConfig, "ssh-config", "F", "",
		"SSH configuration file (default: ~/.ssh/config and the system's)")
	flags.IntVar(&o.SSHPort, "ssh-port", 0, "SSH port of hosts that do not name one")
	flags.StringArrayVarP(&o.Identities, "ssh-identity-file", "i", nil, "private key to try first; may be repeated")
	flags.StringVar(&o.HostKeys, "host-keys", "strict", "strict, or accept-new to trust a host on first connection")
	flags.BoolVar(&o.NoKept, "no-kept", false,
		"connect to every host, also to those that are kept connected, and keep none")

	flags.Var(&o.Network, "network-interface", "interfaces or subnets for traffic between ranks: eth0, ib*, "+
		"10.0.0.0/8, ^docker0; of several, ring sends over all that join two hosts (default: any, the address SSH "+
		"uses first)")
	flags.Var(&o.MPI, "mpi", "programs' MPI: auto (what they are linked with, the default), pmi1 (MPICH and "+
		"derivatives), ompi4 (Open MPI up to 4.1), or pmix (Open MPI 5)")
	flags.Var(&o.MaxSpawn, "max-spawn", "let MPI_Comm_spawn start ranks on all hosts of the job, also those without "+
		"ranks, and have so many running on each at a time (without it: 128 on the host of the rank that asks)")
	flags.BoolVar(&o.Encrypt, "encrypt", false,
		"encrypt ring's traffic between hosts with TLS 1.3 (default: authenticated, not encrypted)")

	flags.BoolVar(&o.NoNewPrivileges, "no-new-privileges", false,
		"keep ranks and their children from gaining privileges, by sudo for example (default: they may)")

	flags.Var(&o.StartTimeout, "start-timeout",
		"fail unless all ranks run by then, and call MPI_Init as soon after the first")
	flags.Var(&o.Timeout, "timeout", "stop the job after this time (exit code 124)")
	flags.Var(&o.Grace, "grace", "time between SIGTERM and SIGKILL when the job is stopped")

	o.Hang.addFlags(flags)

	o.addOutputFlags(flags)
	o.Control.addFlags(flags)
	o.Tools.addFlags(flags)
	o.Watch.addFlags(flags)

	flags.StringVar(&o.Config, "config", "",
		"YAML file with defaults for these flags (default: ~/.config/gorun/config.yaml)")
	flags.StringVar(&o.JobFile, "config-file", "",
		"YAML file with a job: flags, env and command, or horovodrun's settings; flags on the command line win")
	flags.StringVar(&o.dialect, "dialect", "", "launcher whose flags to accept first: gorun, mpirun, mpiexec.hydra, "+
		"horovodrun, srun or torchrun (default: from gorun's name)")
	flags.BoolVar(&o.DisplayMap, "display-map", false, "show which rank runs where, then run")
	flags.BoolVar(&o.DryRun, "dry-run", false, "show what would run where, without running it")
	flags.BoolVar(&o.EnvFlags, "print-env-flags", false,
		"print the -e options that pass the ranks' variables to docker, podman and enroot containers")
	flags.CountVarP(&o.Verbose, "verbose", "v", "print what gorun does")
	flags.SetNormalizeFunc(dialect.Spelling)
}

func (o *Options) addOutputFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Prefix, "prefix", "host",
		"prefix of output lines: host, rank, horovod, mpirun, none, or text with %r %h %l %p %s %t")
	flags.BoolVar(&o.TagOutput, "tag-output", false, "same as --prefix mpirun")
	flags.BoolVar(&o.Timestamp, "timestamp", false, "start output lines with the time")
	flags.StringVar(&o.Color, "color", "auto", "color prefixes by host: auto (on a terminal), always or never")
	flags.Var(&o.Show, "show", "show the output of these ranks only: 0,8-11")
	flags.Var(&o.ShowLocal, "show-local", "show the output of these local ranks of each host only: 0")
	flags.Var(&o.Hide, "hide", "hide output from the terminal and only save it: stdout, stderr or all, or that of "+
		"local ranks: 0:stdout,1:all")
	flags.BoolVar(&o.MergeStderr, "merge-stderr", false, "write the ranks' stderr to stdout")
	flags.StringVar(&o.OutputFilename, "output-filename", "",
		"also save output to DIR/rank.N/stdout and stderr, listed in DIR/index.json")
	flags.StringVar(&o.Save[1], "stdout-file", "",
		"save stdout to files instead of showing it: a name with %r %h %l %j, such as out.%r")
	flags.StringVar(&o.Save[2], "stderr-file", "",
		"save stderr to files instead of showing it; may be the same name as --stdout-file")
	flags.StringVar(&o.ResultDir, "result-dir", "",
		"save what each rank writes to the descriptor GORUN_RESULT_FD in DIR/rank.N/result")
	flags.Var(&o.ResultLimit, "result-limit", "largest result of a rank: 64M, 8G (default 1G)")
	flags.BoolVar(&o.Summary, "summary", false, "print a table of ranks at the end: host, exit, time, peak memory")
	flags.BoolVar(&o.Quiet, "quiet", false, "print only errors and the ranks' output")
	flags.StringVar(&o.JSONEvents, "json-events", "", "write the job's steps as JSON lines to FILE or fd:N")
}

// Check reports values that no run can have.
func (o *Options) Check(npSet bool) error {
	switch {
	case npSet && o.NP < 1:
		return usage.Errorf("give the number of ranks, for example -np 4", "-np %d: a job has at least 1 rank", o.NP)
	case o.NP > 1<<20:
		return usage.Errorf("", "-np %d: at most %d ranks", o.NP, 1<<20)
	case !slices.Contains([]string{"auto", "ssh", "srun", "system-ssh", "rsh", "local"}, o.Launcher):
		return usage.Errorf("", "--launcher %q: it must be auto, ssh, srun, system-ssh, rsh or local", o.Launcher)
	case o.HostKeys != "strict" && o.HostKeys != "accept-new":
		return usage.Errorf("", "--host-keys %q: it must be strict or accept-new", o.HostKeys)
	case !slices.Contains([]string{"auto", "always", "never"}, o.Color):
		return usage.Errorf("", "--color %q: it must be auto, always or never", o.Color)
	case o.Hide.Beyond(o.Save.Hidden()) && o.OutputFilename == "":
		return usage.Errorf("say where it goes: --output-filename DIR, torchrun's --log-dir",
			"--hide %v: that output would be lost", &o.Hide)
	case o.SSHPort < 0 || o.SSHPort > 65535:
		return usage.Errorf("", "--ssh-port %d: ports go from 1 to 65535", o.SSHPort)
	case o.JSON && !o.DryRun:
		return usage.Errorf("to record the steps of a running job, use --json-events FILE", "--json requires --dry-run")
	}
	if err := o.checkElastic(npSet); err != nil {
		return err
	}
	if err := o.Checkup.check(o); err != nil {
		return err
	}
	if err := o.Hang.check(); err != nil {
		return err
	}
	if err := o.Control.check(); err != nil {
		return err
	}
	if err := o.Tools.check(o); err != nil {
		return err
	}
	return o.placement.check()
}

// count is a number of at least 1; 0 if not given.
type count int

func (c *count) String() string { return strconv.Itoa(int(*c)) }
func (c *count) Type() string   { return "int" }

func (c *count) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1<<20 {
		return fmt.Errorf("expected a whole number from 1 to %d", 1<<20)
	}
	*c = count(n)
	return nil
}

// Ranks is a set of ranks such as 0,8-11. The zero value is all ranks.
type Ranks [][2]int

func (r *Ranks) Type() string { return "ranks" }

func (r *Ranks) String() string {
	var parts []string
	for _, part := range *r {
		if part[0] == part[1] {
			parts = append(parts, strconv.Itoa(part[0]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", part[0], part[1]))
		}
	}
	return strings.Join(parts, ",")
}

func (r *Ranks) Set(text string) error {
	set, err := usage.ParseRanks(text)
	if err == nil {
		*r = set
	}
	return err
}

// Filter returns whether a rank is in r, or nil for all ranks. A rank outside a job of size ranks
// is an error.
func (r Ranks) Filter(size int) (func(rank int) bool, error) {
	if len(r) == 0 {
		return nil, nil
	}
	for _, part := range r {
		if part[1] >= size {
			return nil, usage.Errorf(fmt.Sprintf("this job's ranks go from 0 to %d", size-1),
				"--show %s: there is no rank %d", r.String(), part[1])
		}
	}
	return r.has, nil
}

func (r Ranks) has(rank int) bool {
	return slices.ContainsFunc(r, func(part [2]int) bool { return part[0] <= rank && rank <= part[1] })
}

// network is a list of interfaces and subnets.
type network struct{ launcher.Network }

func (n *network) Type() string { return "list" }

func (n *network) Set(text string) (err error) {
	n.Network, err = route.ParseNetwork(text)
	return err
}

// Seconds is a duration: a number of seconds, or a number with a unit.
type Seconds time.Duration

func (s *Seconds) String() string { return time.Duration(*s).String() }
func (s *Seconds) Type() string   { return "time" }

func (s *Seconds) Set(text string) error {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		text = strconv.FormatFloat(n, 'f', -1, 64) + "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > 10*365*24*time.Hour {
		return fmt.Errorf("expected seconds or a duration such as 90s, 5m or 1h30m")
	}
	*s = Seconds(d)
	return nil
}

// ByteSize is a number of bytes such as 8, 4K, 1M or 1G.
type ByteSize int

func (s *ByteSize) String() string { return strconv.Itoa(int(*s)) }

func (s *ByteSize) Type() string { return "bytes" }

func (s *ByteSize) Set(text string) error {
	number := strings.TrimSuffix(strings.ToUpper(text), "B")
	shift := 0
	for i, unit := range []string{"K", "M", "G"} {
		if n, found := strings.CutSuffix(strings.TrimSuffix(number, "I"), unit); found {
			number = n
			shift = 10 * (i + 1)
		}
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n > 1<<40>>shift {
		return errors.New("expected bytes, for example 8, 64K or 256M")
	}
	*s = ByteSize(n << shift)
	return nil
}

// NewFlags returns the flags of a run and the options that they set.
func NewFlags() (*pflag.FlagSet, *Options) {
	var o Options
	flags := pflag.NewFlagSet("gorun", pflag.ContinueOnError)
	flags.SetInterspersed(false)
	o.AddFlags(flags)
	return flags, &o
}
