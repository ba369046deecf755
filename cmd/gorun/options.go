package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/cli/dialect"
	"github.com/gorun/gorun/internal/cli/usage"
	"github.com/gorun/gorun/launcher"
)

// runOptions are the flags of a run, as the user gave them.
type runOptions struct {
	np              int
	ppn, nodes      count
	hosts           string
	hostfile        string
	noOversubscribe bool
	placement
	elastic elasticOptions

	exports  []string
	envFiles []string
	unset    []string
	noEnv    bool
	wdir     string
	stdin    stdinChoice

	stage      string
	stageLimit byteSize

	launcher   string
	rshAgent   string
	rshArgs    []string
	sshConfig  string
	sshPort    int
	identities []string
	hostKeys   string

	network network
	encrypt bool
	mpi     mpiFlag

	startTimeout seconds
	timeout      seconds
	grace        seconds

	prefix         string
	tagOutput      bool
	timestamp      bool
	color          string
	show           ranks
	hide           hidden
	mergeStderr    bool
	outputFilename string
	save           savings
	summary        bool
	quiet          bool
	jsonEvents     string

	config     string
	jobFile    string
	dialect    string
	displayMap bool
	dryRun     bool
	json       bool
	envFlags   bool
	verbose    int
}

// addFlags binds o to flags.
func (o *runOptions) addFlags(flags *pflag.FlagSet) {
	o.startTimeout, o.grace = seconds(60*time.Second), seconds(5*time.Second)
	flags.IntVarP(&o.np, "np", "n", 0, "ranks to start (default: one per slot)")
	flags.StringVarP(&o.hosts, "hosts", "H", "", "hosts and their slots: f1:2,f[2-8]:2,^f5 (default: what the scheduler says, or this machine)")
	flags.StringVar(&o.hostfile, "hostfile", "", "file with a host per line: f1 slots=2; with -H, those of them that -H names")
	flags.Var(&o.ppn, "ppn", "ranks on each host, whatever its slots")
	flags.Var(&o.nodes, "nodes", "use this many hosts, the first ones, with an equal share of the ranks")
	flags.BoolVar(&o.noOversubscribe, "no-oversubscribe", false, "refuse more ranks than slots")
	o.placement.addFlags(flags)
	o.elastic.addFlags(flags)

	flags.StringArrayVarP(&o.exports, "export", "x", nil, "send a variable whatever its name: NAME, NAME=value or PREFIX*")
	flags.StringArrayVar(&o.envFiles, "env-file", nil, "file with a NAME=value or NAME per line, to send as --export does")
	flags.StringArrayVar(&o.unset, "unset-env", nil, "leave a variable out: NAME or PREFIX*")
	flags.BoolVar(&o.noEnv, "no-env", false, "send only what --export and --env-file name")
	flags.StringVar(&o.wdir, "wdir", "", "working directory of the ranks (default: the current one)")
	flags.StringVar(&o.stage, "stage", "", "folder that ranks start in, copied to the hosts that do not see it; what .gorunignore there names stays")
	flags.Var(&o.stageLimit, "stage-limit", "largest folder to stage: 500M, 20G (default 1G and 10,000 files)")
	flags.Var(&o.stdin, "stdin", "which ranks read gorun's standard input: one of them, all or none (default: rank 0)")

	flags.StringVar(&o.launcher, "launcher", "auto", "how hosts are reached: ssh, srun, system-ssh (by the ssh program), rsh (by the one of --launch-agent), local (all are this machine), or auto: by srun in a Slurm job")
	addRemoteShellFlags(o, flags)
	flags.StringVarP(&o.sshConfig, "ssh-config", "F", "", "SSH configuration file (default: ~/.ssh/config and the system's)")
	flags.IntVar(&o.sshPort, "ssh-port", 0, "SSH port of hosts that do not name one")
	flags.StringArrayVarP(&o.identities, "ssh-identity-file", "i", nil, "private key to try first; may be repeated")
	flags.StringVar(&o.hostKeys, "host-keys", "strict", "strict, or accept-new to trust hosts on first sight")

	flags.Var(&o.network, "network-interface", "interfaces or subnets that ranks use: eth0, ib*, 10.0.0.0/8, ^docker0 (default: all, where SSH reaches a host first)")
	flags.Var(&o.mpi, "mpi", "which MPI the programs are built with: pmi1 (MPICH and its kin, the default), or ompi4 (Open MPI up to 4.1)")
	flags.BoolVar(&o.encrypt, "encrypt", false, "encrypt what ring sends between hosts (TLS 1.3); without, it is in the clear between ranks that have proven who they are")

	flags.Var(&o.startTimeout, "start-timeout", "time until every rank must run")
	flags.Var(&o.timeout, "timeout", "time after which the job is stopped (exit code 124)")
	flags.Var(&o.grace, "grace", "time between SIGTERM and SIGKILL when the job is stopped")

	o.addOutputFlags(flags)

	flags.StringVar(&o.config, "config", "", "YAML file with defaults for these flags (default: ~/.config/gorun/config.yaml)")
	flags.StringVar(&o.jobFile, "config-file", "", "YAML file with a job: flags, env and command, or horovodrun's settings; flags given here win")
	flags.StringVar(&o.dialect, "dialect", "", "whose meaning words have first: gorun, mpirun, mpiexec.hydra, horovodrun, srun or torchrun (default: by gorun's name)")
	flags.BoolVar(&o.displayMap, "display-map", false, "show which rank runs where, and run")
	flags.BoolVar(&o.dryRun, "dry-run", false, "show what would run where, and stop")
	flags.BoolVar(&o.envFlags, "print-env-flags", false, "print the -e options that give docker, podman and enroot containers the ranks' variables, and stop")
	flags.CountVarP(&o.verbose, "verbose", "v", "tell what gorun does")
	flags.SetNormalizeFunc(dialect.Spelling)
}

func (o *runOptions) addOutputFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.prefix, "prefix", "host", "start of output lines: host, rank, horovod, mpirun, none, or text with %r %h %l %p %s %t")
	flags.BoolVar(&o.tagOutput, "tag-output", false, "same as --prefix mpirun")
	flags.BoolVar(&o.timestamp, "timestamp", false, "start output lines with the time")
	flags.StringVar(&o.color, "color", "auto", "colours of hosts before output lines: auto (on a terminal), always or never")
	flags.Var(&o.show, "show", "show the output of these ranks only: 0,8-11")
	flags.Var(&o.hide, "hide", "do not show this of the ranks' output, only save it: stdout, stderr or all")
	flags.BoolVar(&o.mergeStderr, "merge-stderr", false, "write the ranks' stderr to stdout")
	flags.StringVar(&o.outputFilename, "output-filename", "", "also save output to DIR/rank.N/stdout and stderr, listed in DIR/index.json")
	flags.StringVar(&o.save[1], "stdout-file", "", "save the ranks' stdout to files instead of showing it: text with %r %h %l %j, as out.%r")
	flags.StringVar(&o.save[2], "stderr-file", "", "the same for stderr; with both names alike, what a rank writes goes to one file")
	flags.BoolVar(&o.summary, "summary", false, "end with a table of the ranks: host, how it ended, time, peak memory")
	flags.BoolVar(&o.quiet, "quiet", false, "say nothing but errors; the ranks' output is shown")
	flags.StringVar(&o.jsonEvents, "json-events", "", "write the job's steps to a file or an open descriptor, a JSON object a line: FILE or fd:N")
}

// check finds values that no run can have.
func (o *runOptions) check(npSet bool) error {
	switch {
	case npSet && o.np < 1:
		return usage.Errorf("give the number of ranks, for example -np 4", "-np %d: a job has at least 1 rank", o.np)
	case o.np > 1<<20:
		return usage.Errorf("", "-np %d: at most %d ranks", o.np, 1<<20)
	case !slices.Contains([]string{"auto", "ssh", "srun", "system-ssh", "rsh", "local"}, o.launcher):
		return usage.Errorf("", "--launcher %q: it must be auto, ssh, srun, system-ssh, rsh or local", o.launcher)
	case o.hostKeys != "strict" && o.hostKeys != "accept-new":
		return usage.Errorf("", "--host-keys %q: it must be strict or accept-new", o.hostKeys)
	case !slices.Contains([]string{"auto", "always", "never"}, o.color):
		return usage.Errorf("", "--color %q: it must be auto, always or never", o.color)
	case o.hide&^o.save.hidden() != 0 && o.outputFilename == "":
		return usage.Errorf("say where it goes: --output-filename DIR, torchrun's --log-dir", "--hide %v: that output would be lost", &o.hide)
	case o.sshPort < 0 || o.sshPort > 65535:
		return usage.Errorf("", "--ssh-port %d: ports go from 1 to 65535", o.sshPort)
	case o.json && !o.dryRun:
		return usage.Errorf("for the steps of a job that runs there is --json-events FILE", "--json goes with --dry-run")
	}
	if err := o.checkElastic(npSet); err != nil {
		return err
	}
	return o.placement.check()
}

// count is a number of at least 1 on the command line; 0 where none is given.
type count int

func (c *count) String() string { return strconv.Itoa(int(*c)) }
func (c *count) Type() string   { return "int" }

func (c *count) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1<<20 {
		return fmt.Errorf("want a whole number from 1 to %d", 1<<20)
	}
	*c = count(n)
	return nil
}

// ranks is a set of ranks on the command line: 0,8-11. The zero value is all.
type ranks [][2]int

func (r *ranks) Type() string { return "ranks" }

func (r *ranks) String() string {
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

func (r *ranks) Set(text string) error {
	set, err := usage.ParseRanks(text)
	if err == nil {
		*r = set
	}
	return err
}

// filter says which ranks of a job of some size are in r; nil: all.
func (r ranks) filter(size int) (func(rank int) bool, error) {
	if len(r) == 0 {
		return nil, nil
	}
	for _, part := range r {
		if part[1] >= size {
			return nil, usage.Errorf(fmt.Sprintf("this job's ranks go from 0 to %d", size-1), "--show %s: there is no rank %d", r.String(), part[1])
		}
	}
	return func(rank int) bool {
		return slices.ContainsFunc(r, func(part [2]int) bool { return part[0] <= rank && rank <= part[1] })
	}, nil
}

// network is a list of interfaces and subnets on the command line.
type network struct{ launcher.Network }

func (n *network) Type() string { return "list" }

func (n *network) Set(text string) (err error) {
	n.Network, err = launcher.ParseNetwork(text)
	return err
}

// seconds is a time on the command line: a number of seconds, or with a unit.
type seconds time.Duration

func (s *seconds) String() string { return time.Duration(*s).String() }
func (s *seconds) Type() string   { return "time" }

func (s *seconds) Set(text string) error {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		text = strconv.FormatFloat(n, 'f', -1, 64) + "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > 10*365*24*time.Hour {
		return fmt.Errorf("want seconds, or a time such as 90s, 5m or 1h30m")
	}
	*s = seconds(d)
	return nil
}
