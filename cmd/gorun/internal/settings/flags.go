package settings

import (
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
)

// Flag is a flag of a run: what the flag parser, the help, job files, the environment and the
// completion know about it.
type Flag struct {
	Name        string
	Short       string // short flag, or ""
	To          any    // *int, *string, *bool, *[]string, *counter or pflag.Value that the flag sets
	Usage       string
	Alone       string            // the value where the flag has none; "": it needs one
	Path        func(string) bool // reports whether a value is a path on this machine; nil: none is
	Accumulates bool              // values of a file stay beside those of the command line
	NoVariable  bool              // no GORUN_ variable sets it
	Words       []string          // some values, for completion
	Complete    Completion
	From        Level
	// Command replaces the programs in a value that is a command line. nil: it is none.
	Command func(value string, place func(program string) string) string
}

// Group is the flags below a heading of the help.
type Group struct {
	Title string
	Flags []Flag
}

// Completion says how a shell completes the values of a flag that has no Words.
type Completion uint8

// The completions.
const (
	Files     Completion = iota // files, or nothing for numbers and the like
	Hosts                       // names of hosts
	Folders                     // folders
	Variables                   // names of environment variables
)

// Level is how much of a run a command does. A flag applies to commands of its level and above; the
// others accept it, since they take the flags of a run, and do not list it.
type Level int8

// The levels.
const (
	Connects Level = iota - 3 // finds hosts and connects to them
	Copies                    // also sends files between them
	Probes                    // also starts probes of gorun there
	Jobs                      // starts ranks of gorun's own
	Programs                  // starts the user's programs
)

func always(string) bool { return true }

func unlessDescriptor(value string) bool { return !strings.HasPrefix(value, "fd:") }

// unlessAddress reports whether a value of --metrics is no address. Addresses are HOST:PORT and
// :PORT, where HOST is an IP address or localhost.
func unlessAddress(value string) bool {
	host, port, err := net.SplitHostPort(value)
	if host == "" || host == "localhost" {
		host = "127.0.0.1"
	}
	_, hostErr := netip.ParseAddr(host)
	return err != nil || hostErr != nil || port == "" || strings.Trim(port, "0123456789") != ""
}

// AddFlags binds o to flags and sets their defaults. A flag that a command has already is its own.
// Flags that do not apply to a command of this level are hidden.
func (o *Options) AddFlags(flags *pflag.FlagSet, level Level) {
	o.setDefaults()
	for _, group := range o.Groups() {
		for _, f := range group.Flags {
			if flags.Lookup(f.Name) == nil {
				f.define(flags)
				flags.Lookup(f.Name).Hidden = f.From > level
			}
		}
	}
	flags.SetNormalizeFunc(dialect.Spelling)
}

func (o *Options) setDefaults() {
	o.Launcher = "auto"
	o.HostKeys = "strict"
	o.StartTimeout = Seconds(60 * time.Second)
	o.Grace = Seconds(5 * time.Second)
	o.Hang.On = "report"
	o.Prefix = "host"
	o.Color = "auto"
	o.Elastic.Wait = Seconds(10 * time.Minute)
}

// counter is a flag that counts how often it is given.
type counter int

func (f Flag) define(flags *pflag.FlagSet) {
	switch to := f.To.(type) {
	case *int:
		flags.IntVarP(to, f.Name, f.Short, *to, f.Usage)
	case *string:
		flags.StringVarP(to, f.Name, f.Short, *to, f.Usage)
	case *bool:
		flags.BoolVarP(to, f.Name, f.Short, *to, f.Usage)
	case *[]string:
		flags.StringArrayVarP(to, f.Name, f.Short, *to, f.Usage)
	case *counter:
		flags.CountVarP((*int)(to), f.Name, f.Short, f.Usage)
	case pflag.Value:
		flags.VarP(to, f.Name, f.Short, f.Usage)
	}
	defined := flags.Lookup(f.Name)
	if f.Alone != "" {
		defined.NoOptDefVal = f.Alone
	}
}

// FlagsByName returns all flags of a run.
func FlagsByName() map[string]Flag {
	all := map[string]Flag{}
	for _, group := range new(Options).Groups() {
		for _, f := range group.Flags {
			all[f.Name] = f
		}
	}
	return all
}

// Groups returns all flags of a run in the order of the help.
func (o *Options) Groups() []Group {
	return []Group{
		{"Where and how many", []Flag{
			{Name: "np", Short: "n", To: &o.NP, From: Connects, Usage: "ranks to start (default: one per slot)"},
			{Name: "ppn", To: &o.Ppn, From: Connects,
				Usage: "ranks on each host, regardless of its slots: N, N:UNIT for each socket, numa, l3cache, " +
					"l2cache, core, hwthread or gpu, or auto (one per core)"},
			{Name: "nodes", To: &o.Nodes, From: Connects,
				Usage: "use the first N hosts, with an equal share of the ranks"},
			{Name: "hosts", Short: "H", To: &o.Hosts, Complete: Hosts, From: Connects,
				Usage: "hosts and slots: f1:2,f[2-8]:2,^f5 (default: from the scheduler, else this machine)"},
			{Name: "hostfile", To: &o.Hostfile, Path: always, From: Connects,
				Usage: "file with a host per line: f1 slots=2; -H selects among them"},
			{Name: "hosts-from-pods", To: &o.Pods, From: Connects,
				Usage: "pods of Kubernetes that are ready and have labels such as app=train,role=worker; -H selects " +
					"among them, and an elastic job follows them"},
			{Name: "namespace", To: &o.Namespace, From: Connects,
				Usage: "namespace of pods (default: this pod's, or that of the kubeconfig)"},
			{Name: "no-local", To: &o.NoLocal, From: Connects, Usage: "leave this machine out of the hosts"},
			{Name: "no-oversubscribe", To: &o.noOversubscribe, Usage: "refuse more ranks than slots"},
			{Name: "map-by", To: &o.MapBy, From: Connects,
				Words: []string{"slot", "node", "seq", "socket", "numa", "l3cache", "l2cache", "core", "hwthread"},
				Usage: "assign ranks to hosts by slot (fill a host, then the next), node (round-robin) or seq (one " +
					"rank for each mention of a host), and to a host's units in turn: socket, numa, l3cache, " +
					"l2cache, core or hwthread (default slot)"},
			{Name: "rank-by", To: &o.RankBy,
				Words: []string{"slot", "node", "round", "core", "socket", "numa", "l3cache", "l2cache"},
				Usage: "number ranks by slot (host by host), node (round-robin) or round (each host's slots, then " +
					"again), and on a host by core, or by socket, numa, l3cache or l2cache in turn (default: as " +
					"--map-by)"},
			{Name: "rankfile", To: &o.Rankfile, Path: always, From: Connects,
				Usage: "file with the host and cores of each rank: rank 0=f1 slot=1:0-3"},
			{Name: "check-first", To: &o.Checkup.Level, Alone: "default",
				Usage: "examine the hosts as gorun doctor does, and refuse the job if any is bad: quick, default or " +
					"long"},
			{Name: "exclude-bad", To: &o.Checkup.Exclude,
				Usage: "with --check-first: leave bad hosts out if the others have enough slots"},
		}},
		{"Hosts that come and go", []Flag{
			{Name: "min-np", To: &o.Elastic.MinNP, From: Connects,
				Usage: "elastic job: fewest ranks to run with (default: as -np)"},
			{Name: "max-np", To: &o.Elastic.MaxNP, From: Connects,
				Usage: "elastic job: most ranks to grow to (default: all slots)"},
			{Name: "spares", To: &o.Elastic.Spares, From: Connects,
				Usage: "elastic job: processes to start beyond the ranks, to take the place of one that fails"},
			{Name: "replace-slow", To: &o.Elastic.ReplaceSlow,
				Usage: "with --spares: let a spare take the place of a rank that takes this many times as long as " +
					"the others for 45 s: 1.5"},
			{Name: "host-discovery-script", To: &o.Elastic.Discovery, Command: commandLine, From: Connects,
				Usage: "elastic job: program that prints the available hosts, one per line: f1:2; runs every 0.75 s"},
			{Name: "slots-per-host", To: &o.Elastic.slotsPerHost, From: Connects,
				Usage: "slots of discovered hosts that come without a number, and of pods (default 1, or one for " +
					"each GPU of a pod)"},
			{Name: "reset-limit", To: &o.Elastic.Resets,
				Usage: "elastic job: fail after this many resets: 10, or 10/1h within an hour (default: no limit)"},
			{Name: "max-restarts", To: &o.Elastic.Restarts,
				Usage: "restart all ranks up to this many times when one fails, as torchrun does"},
			{Name: "elastic-timeout", To: &o.Elastic.Wait, Usage: "elastic job: wait this long for enough slots"},
			{Name: "blacklist-cooldown-range", To: &o.Elastic.Cooldown,
				Usage: "elastic job: initial and longest time in seconds that a failed host gets no ranks: 10,300"},
		}},
		{"Where on a host", []Flag{
			{Name: "bind-to", To: &o.BindTo,
				Words: []string{"none", "hwthread", "core", "l2cache", "l3cache", "numa", "socket", "cpu-list"},
				Usage: "bind ranks to: none, hwthread, core, l2cache, l3cache, numa, socket or cpu-list, with " +
					":overload-allowed or :if-supported (default none)"},
			{Name: "cpus-per-rank", To: &o.CPUsPerRank,
				Usage: "cores for each rank; binds to cores unless --bind-to is given"},
			{Name: "cpu-list", To: &o.CPUList,
				Usage: "cores of each host that ranks may use, counted over all sockets: 0-3,8; all of them for " +
					"every rank unless --bind-to is given"},
			{Name: "rank-cpus", To: &o.RankCPUs,
				Usage: "hardware threads of each local rank, by the kernel's numbers: 0-3,4-7, or 0+8,1+9"},
			{Name: "gpus-per-rank", To: &o.GPUsPerRank, Words: []string{"auto", "none", "1"},
				Usage: "number of GPUs visible to each rank, or auto (all, or one in turn if ranks outnumber GPUs), " +
					"or none (do not assign GPUs) (default auto)"},
			{Name: "report-bindings", To: &o.ReportBindings, Usage: "print what each rank is bound to"},
		}},
		{"What the ranks get", []Flag{
			{Name: "export", Short: "x", To: &o.Exports, Accumulates: true, Complete: Variables, From: Probes,
				Usage: "send a variable: NAME, NAME=value or PREFIX*"},
			{Name: "env-file", To: &o.EnvFiles, Path: always, Accumulates: true, From: Probes,
				Usage: "file of variables to send, one NAME=value or NAME per line"},
			{Name: "unset-env", To: &o.Unset, Accumulates: true, Complete: Variables, From: Probes,
				Usage: "do not send a variable: NAME or PREFIX*"},
			{Name: "no-env", To: &o.NoEnv, From: Probes, Usage: "send only what --export and --env-file name"},
			{Name: "wdir", To: &o.Wdir, Path: always, Complete: Folders,
				Usage: "working directory of the ranks (default: the current one)"},
			{Name: "stage", To: &o.Stage, Path: always, Accumulates: true,
				Usage: "folder to start ranks in, copied to hosts that lack it, except files named in its " +
					".gorunignore"},
			{Name: "stage-back", To: &o.StageBack, Accumulates: true, From: Programs,
				Usage: "bring files back to the current folder when the job has ended, also after a failure: " +
					"'ckpt/*.pt', below the ranks' working folder"},
			{Name: "stage-limit", To: &o.StageLimit,
				Usage: "largest folder to stage: 500M, 20G (default 1G and 10,000 files)"},
			{Name: "stage-env", To: &o.StageEnv, Path: always,
				Usage: "virtual environment or conda prefix that ranks run in, copied once to a disk of each host"},
			{Name: "stage-env-dir", To: &o.StageBase,
				Usage: "folder for such copies on hosts, on a disk of their own (default /var/tmp/gorun-UID/env, " +
					"else ~/.cache/gorun/env)"},
			{Name: "setup", To: &o.Setup, Command: asTyped,
				Usage: "run a command once on each host before ranks start there, by sh -c; if it fails, no rank " +
					"starts"},
			{Name: "teardown", To: &o.Teardown, Command: asTyped,
				Usage: "run a command once on each host when the ranks have ended, however they did, by sh -c, for " +
					"at most a minute"},
			{Name: "stdin", To: &o.Stdin, Words: []string{"0", "none"}, From: Programs,
				Usage: "ranks that read gorun's standard input: a rank, all or none (default: rank 0)"},
			{Name: "mpi", To: &o.MPI, Words: []string{"auto", "pmi1", "ompi4", "pmix"},
				Usage: "programs' MPI: auto (what they are linked with, the default), pmi1 (MPICH and derivatives), " +
					"ompi4 (Open MPI up to 4.1), or pmix (Open MPI 5)"},
			{Name: "max-spawn", To: &o.MaxSpawn,
				Usage: "let MPI_Comm_spawn start ranks on all hosts of the job, also those without ranks, and have " +
					"so many running on each at a time (without it: 128 on the host of the rank that asks)"},
			{Name: "no-new-privileges", To: &o.NoNewPrivileges,
				Usage: "keep ranks and their children from gaining privileges, by sudo for example (default: " +
					"they may)"},
		}},
		{"Output", []Flag{
			{Name: "prefix", To: &o.Prefix, Words: []string{"host", "rank", "horovod", "mpirun", "none"},
				From:  Programs,
				Usage: "prefix of output lines: host, rank, horovod, mpirun, none, or text with %r %h %l %p %s %t %T"},
			{Name: "tag-output", To: &o.TagOutput, From: Programs, Usage: "same as --prefix mpirun"},
			{Name: "timestamp", To: &o.Timestamp, From: Programs, Usage: "start output lines with the time"},
			{Name: "color", To: &o.Color, Words: []string{"auto", "always", "never"}, From: Programs,
				Usage: "color prefixes by host: auto (on a terminal), always or never"},
			{Name: "fold", To: &o.Fold, Alone: "lines", Words: []string{"auto", "lines", "numbers"}, From: Programs,
				Usage: "show equal lines of ranks as one, [0-7] text: auto (on a terminal), lines (everywhere), or " +
					"numbers (also those that differ in numbers)"},
			{Name: "no-fold", To: &o.NoFold, From: Programs, Usage: "show every line of every rank"},
			{Name: "show", To: &o.Show, From: Programs, Usage: "show the output of these ranks only: 0,8-11"},
			{Name: "show-local", To: &o.ShowLocal, From: Programs,
				Usage: "show the output of these local ranks of each host only: 0"},
			{Name: "hide", To: &o.Hide, From: Programs, Words: []string{"stdout", "stderr", "all"},
				Usage: "hide output from the terminal and only save it: stdout, stderr or all, or that of local " +
					"ranks: 0:stdout,1:all"},
			{Name: "merge-stderr", To: &o.MergeStderr, From: Programs, Usage: "write the ranks' stderr to stdout"},
			{Name: "output-filename", To: &o.OutputFilename, Path: always, Complete: Folders, From: Programs,
				Usage: "also save output to DIR/rank.N/stdout and stderr, listed in DIR/index.json"},
			{Name: "stdout-file", To: &o.Save[1], Path: always, From: Programs,
				Usage: "save stdout to files instead of showing it: a name with %r %h %l %j, such as out.%r"},
			{Name: "stderr-file", To: &o.Save[2], Path: always, From: Programs,
				Usage: "save stderr to files instead of showing it; may be the same name as --stdout-file"},
			{Name: "result-dir", To: &o.ResultDir, Path: always, Complete: Folders, From: Programs,
				Usage: "save what each rank writes to the descriptor GORUN_RESULT_FD in DIR/rank.N/result"},
			{Name: "result-limit", To: &o.ResultLimit, From: Programs,
				Usage: "largest result of a rank: 64M, 8G (default 1G)"},
			{Name: "summary", To: &o.Summary,
				Usage: "print a table of ranks at the end: host, exit, time, peak memory"},
			{Name: "quiet", To: &o.Quiet, From: Connects, Usage: "print only errors and the ranks' output"},
			{Name: "json-events", To: &o.JSONEvents, Path: unlessDescriptor,
				Usage: "write the job's steps as JSON lines to FILE or fd:N"},
		}},
		{"How long", []Flag{
			{Name: "start-timeout", To: &o.StartTimeout, From: Connects,
				Usage: "fail unless all ranks run by then, and call MPI_Init as soon after the first"},
			{Name: "timeout", To: &o.Timeout, Usage: "stop the job after this time (exit code 124)"},
			{Name: "warn-signal", To: &o.Warn,
				Usage: "send ranks a signal before --timeout, or before the end of the Slurm job: USR1@2m; without " +
					"a time: 60 s before"},
			{Name: "on-end", To: &o.OnEnd, Command: commandLine,
				Usage: "run a command here when the job has ended, by sh -c; GORUN_END_JOB, GORUN_END_CODE and " +
					"others say how"},
			{Name: "hang-timeout", To: &o.Hang.Timeout,
				Usage: "report the stacks of all ranks when no rank has printed, used a processor or finished a " +
					"collective for this time"},
			{Name: "on-hang", To: &o.Hang.On, Words: []string{"report", "kill"},
				Usage: "what --hang-timeout does: report, or kill to also stop the job (exit code 122)"},
			{Name: "keep-going", To: &o.KeepGoing, Alone: "all", Words: []string{"all", "codes", "none"},
				Usage: "let the other ranks go on when one fails: all, or codes for ranks that no signal ended " +
					"(default none)"},
			{Name: "grace", To: &o.Grace, Usage: "time between SIGTERM and SIGKILL when the job is stopped"},
		}},
		{"Connections", []Flag{
			{Name: "launcher", To: &o.Launcher, Words: []string{"auto", "ssh", "srun", "kubexec", "local"},
				From: Connects,
				Usage: "transport to hosts: ssh, srun, kubexec (kubectl exec, for pods), system-ssh (the ssh " +
					"program), rsh (the --launch-agent program), local (run every host here), or auto (srun in a " +
					"Slurm job, else ssh)"},
			{Name: "launch-agent", To: &o.RSHAgent, Command: agentLines, From: Connects,
				Usage: "program that replaces the built-in SSH client, run as PROGRAM ARGS HOST COMMAND"},
			{Name: "launch-agent-args", To: &o.RSHArgs, Command: asTyped, From: Connects,
				Usage: "more arguments for --launch-agent, or for ssh with --launcher system-ssh; may be repeated"},
			{Name: "ssh-config", Short: "F", To: &o.SSHConfig, Path: always, From: Connects,
				Usage: "SSH configuration file (default: ~/.ssh/config and the system's)"},
			{Name: "ssh-port", To: &o.SSHPort, From: Connects, Usage: "SSH port of hosts that do not name one"},
			{Name: "ssh-identity-file", Short: "i", To: &o.Identities, Path: always, From: Connects,
				Usage: "private key to try first; may be repeated"},
			{Name: "host-keys", To: &o.HostKeys, Words: []string{"strict", "accept-new"}, From: Connects,
				Usage: "strict, or accept-new to trust a host on first connection"},
			{Name: "keep", To: &o.Control.Keep,
				Usage: "keep the hosts connected in the background until no job has used them for this time; gorun " +
					"up does so without a job"},
			{Name: "no-kept", To: &o.NoKept, From: Connects,
				Usage: "connect to every host, also to those that are kept connected, and keep none"},
			{Name: "network-interface", To: &o.Network, From: Copies,
				Usage: "interfaces or subnets for traffic between ranks: eth0, ib*, 10.0.0.0/8, ^docker0; of " +
					"several, ring sends over all that join two hosts (default: any, the address SSH uses first)"},
			{Name: "encrypt", To: &o.Encrypt, From: Probes,
				Usage: "encrypt ring's traffic between hosts with TLS 1.3 (default: authenticated, not encrypted)"},
		}},
		{"Debuggers, profilers and terminals", []Flag{
			{Name: "tool", To: &o.Tools.Tool, Command: asTyped, From: Programs,
				Usage: "start these ranks' programs by a tool: gdb:0, 'valgrind --log-file=v.%r':0,8-11 with %r %h " +
					"%l %j; may be repeated"},
			{Name: "debug", To: &o.Tools.Debug, Alone: "all", From: Programs,
				Usage: "stop these ranks (--debug=0,8) or all before their first instruction, and print how to " +
					"attach a debugger"},
			{Name: "panes", To: &o.Tools.Panes, Alone: "all", From: Programs,
				Usage: "give these ranks (--panes=0-3) or all a terminal of their own, side by side in tmux"},
		}},
		{"Jobs beside this terminal", []Flag{
			{Name: "name", To: &o.Control.Name, Usage: "name of the job for gorun ps, logs, attach, exec and the like"},
			{Name: "detach", To: &o.Control.Detach, From: Programs,
				Usage: "run the job in the background, print its id, and keep its output for gorun logs"},
			{Name: "no-control", To: &o.Control.Off,
				Usage: "make no socket by which gorun ps and its like find the job"},
			{Name: "metrics", To: &o.Watch.Metrics, Path: unlessAddress,
				Usage: "offer the use of ranks and hosts to Prometheus: a FILE for node_exporter's textfile " +
					"collector (OpenMetrics if it ends in .om), or an address such as 127.0.0.1:9400"},
			{Name: "record", To: &o.Watch.Record, Path: always,
				Usage: "record what ranks and hosts use in a new folder DIR, for gorun report DIR"},
		}},
		{"gorun itself", []Flag{
			{Name: "dry-run", To: &o.DryRun, Usage: "show what would run where, without running it"},
			{Name: "json", To: &o.JSON, From: Programs, Usage: "with --dry-run: as a JSON document"},
			{Name: "display-map", To: &o.DisplayMap, Usage: "show which rank runs where, then run"},
			{Name: "print-env-flags", To: &o.EnvFlags, From: Programs,
				Usage: "print the -e options that pass the ranks' variables to docker, podman and enroot containers"},
			{Name: "config-file", To: &o.JobFile, NoVariable: true, From: Connects,
				Usage: "YAML file with a job: flags, env and command, or horovodrun's settings; flags on the command " +
					"line win"},
			{Name: "config", To: &o.Config, NoVariable: true, From: Connects,
				Usage: "YAML file with defaults for these flags (default: ~/.config/gorun/config.yaml)"},
			{Name: "dialect", To: &o.dialect, Words: dialect.Names(), From: Connects,
				Usage: "launcher whose flags to accept first: " + strings.Join(dialect.Names(), ", ") +
					" (default: from gorun's name)"},
			{Name: "verbose", Short: "v", To: (*counter)(&o.Verbose), From: Connects, Usage: "print what gorun does"},
		}},
	}
}
