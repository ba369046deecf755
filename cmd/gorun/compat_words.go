package main

// action is what gorun does with a word of another launcher.
type action uint8

const (
	means   action = iota // it is a flag of ours
	reads                 // it becomes flags of ours in a way of its own
	same                  // gorun does that anyway
	pending               // accepted, and has no effect yet
	refuse                // a job without it would be another job
)

// How many words follow, where it is not a fixed number.
const (
	attached = -1 // none, but there may be a value after =
	pair     = -2 // NAME=value, or NAME and value as two words
)

// word is a row of the table of other launchers' words.
type word struct {
	names string    // its spellings without dashes, the usual one first
	of    launchers // who knows it
	args  int       // values that follow, or attached or pair
	is    string    // the row is for these values only; "": for all others
	does  action
	// to is by action: means: our flag, with {} for the value; reads: the reader's
	// name; same: why; pending: what is missing; refuse: what to do instead.
	to string
}

// words is the table. Of the rows of a word that a launcher has, the first that fits
// the value counts; all take as many values.
func words() (table []word) {
	for _, part := range [][]word{countWords(), hostWords(), placementWords(), environmentWords(), outputWords(),
		lifeWords(), startWords(), settingWords(), horovodWords(), slurmWords(), torchWords(), plainWords()} {
		table = append(table, part...)
	}
	return table
}

func countWords() []word {
	return []word{
		{"np n c", openMPI, 1, "", means, "np={}"},
		{"n np", hydra, 1, "", means, "np={}"},
		{"np num-proc", horovod, 1, "", means, "np={}"},
		{"ntasks n", slurm, 1, "", means, "np={}"},
		{"npernode N", openMPI, 1, "", means, "ppn={}"},
		{"pernode", openMPI, 0, "", means, "ppn=1"},
		{"ppn perhost grr", hydra, 1, "", means, "ppn={}"},
		{"rr", hydra, 0, "", means, "map-by=node"},
		{"ntasks-per-node", slurm, 1, "", means, "ppn={}"},
		{"nodes N", slurm, 1, "", means, "nodes={}"},
		{"nproc-per-node", torch, 1, "auto gpu cpu", refuse, "write how many ranks each host gets: --nproc-per-node 4"},
		{"nproc-per-node", torch, 1, "", means, "ppn={}"},
		{"nnodes", torch, 1, "", means, "nodes={}"},
		{"npersocket ppr", openMPI, 1, "", refuse, "say how many ranks each host gets: --ppn N"},
		{"oversubscribe", openMPI, 0, "", same, "more ranks than slots are allowed, with a warning"},
		{"overcommit O", slurm, 0, "", same, "more ranks than slots are allowed, with a warning"},
		{"nooversubscribe no-oversubscribe", openMPI, 0, "", means, "no-oversubscribe"},
		{"max-vm-size", openMPI, 1, "", refuse, "name fewer hosts, or use --nodes N"},
		{"usize", hydra, 1, "", pending, "universe size of MPI-2"},
	}
}

func hostWords() []word {
	return []word{
		{"host H", openMPI, 1, "", means, "hosts={}"},
		{"hosts host hostlist machine machines machinelist", hydra, 1, "", means, "hosts={}"},
		{"hosts H", horovod, 1, "", means, "hosts={}"},
		{"nodelist w", slurm, 1, "", reads, "nodelist"},
		{"hostfile machinefile default-hostfile", openMPI, 1, "", means, "hostfile={}"},
		{"f hostfile machinefile", hydra, 1, "", means, "hostfile={}"},
		{"hostfile", horovod, 1, "", means, "hostfile={}"},
		{"nodefile F", slurm, 1, "", means, "hostfile={}"},
		{"nolocal", openMPI, 0, "", refuse, "leave this machine out of -H or the hostfile"},
		{"skip-launch-node", hydra, 0, "", refuse, "leave this machine out of -H or the hostfile"},
		{"exclude x", slurm, 1, "", refuse, "name the hosts to use with -w or -H"},
		{"relative r", slurm, 1, "", refuse, "name the hosts to use with -w or -H"},
		{"host-discovery-script", horovod, 1, "", means, "host-discovery-script={}"},
		{"slots-per-host", horovod, 1, "", means, "slots-per-host={}"},
		{"min-np min-num-proc", horovod, 1, "", means, "min-np={}"},
		{"max-np max-num-proc", horovod, 1, "", means, "max-np={}"},
		{"elastic-timeout reset-limit", horovod, 1, "", pending, "elastic jobs"},
		{"blacklist-cooldown-range", horovod, 2, "", pending, "elastic jobs"},
	}
}

func environmentWords() []word {
	return []word{
		{"x", openMPI, 1, "", means, "export={}"},
		{"set-env", openMPI, 1, "", means, "export={}"},
		{"unset-env", openMPI, 1, "", means, "unset-env={}"},
		{"prepend-env append-env", openMPI, 2, "", refuse, "give the whole value: -x NAME=value"},
		{"genv env", hydra, pair, "", means, "export={}"},
		{"genvlist envlist", hydra, 1, "", reads, "envlist"},
		{"genvexcl", hydra, 1, "", reads, "envexcl"},
		{"genvall envall", hydra, 0, "", same, "the environment is sent"},
		{"genvnone envnone", hydra, 0, "", means, "no-env"},
		{"export", slurm, 1, "", reads, "srun-export"},
		{"wdir wd", openMPI | hydra, 1, "", means, "wdir={}"},
		{"chdir D", slurm, 1, "", means, "wdir={}"},
		{"path", openMPI, 1, "", refuse, "name the program by its path"},
		{"set-cwd-to-session-dir", openMPI, 0, "", refuse, "choose the directory with --wdir"},
		{"prefix", openMPI, 1, "host rank horovod mpirun none", means, "prefix={}"},
		{"prefix", openMPI, 1, "", reads, "prefix"},
		{"noprefix no-app-prefix", openMPI, 0, "", same, "nothing is put before PATH"},
	}
}

func outputWords() []word {
	return []word{
		{"tag-output", openMPI, 0, "", means, "prefix=mpirun"},
		{"l prepend-rank", hydra, 0, "", means, "prefix=rank"},
		{"label l", slurm, 0, "", means, "prefix=%r: "},
		{"l", own, 0, "", means, "prefix=rank"},
		{"prepend-pattern", hydra, 1, "", reads, "pattern"},
		{"timestamp-output", openMPI, 0, "", means, "timestamp"},
		{"prefix-timestamp prefix-output-with-timestamp", horovod, 0, "", means, "timestamp"},
		{"output-filename", openMPI, 1, "", reads, "output-filename"},
		{"output-filename", horovod, 1, "", means, "output-filename={}"},
		{"outfile-pattern outfile", hydra, 1, "", reads, "hydra-outfile"},
		{"errfile-pattern errfile", hydra, 1, "", reads, "hydra-errfile"},
		{"output", openMPI, 1, "", reads, "output"},
		{"output", own, 1, "", reads, "output"},
		{"output o", slurm, 1, "", reads, "srun-output"},
		{"error e", slurm, 1, "", reads, "srun-error"},
		{"merge-stderr-to-stdout", openMPI, 0, "", means, "merge-stderr"},
		{"xml", openMPI, 0, "", refuse, "output is text; --prefix marks its lines"},
		{"xml-file", openMPI, 1, "", refuse, "output is text; --prefix marks its lines"},
		{"xterm", openMPI, 1, "", refuse, "use --output-filename DIR to see each rank alone"},
		{"stream-buffering", openMPI, 1, "", pending, "lines are always written whole"},
		{"unbuffered u", slurm, 0, "", pending, "lines are always written whole"},
		{"stdin", openMPI, 1, "", means, "stdin={}"},
		{"stdin s", hydra, 1, "", means, "stdin={}"},
		{"input i", slurm, 1, "", reads, "srun-input"},
		{"demux", hydra, 1, "", same, "gorun always waits without polling"},
		{"output-from", hydra, 1, "", means, "show={}"},
		{"display-map display-devel-map display-diffable-map", openMPI, 0, "", means, "display-map"},
		{"display", openMPI, 1, "", reads, "display"},
		{"display-allocation display-devel-allocation display-topo display-comm display-comm-finalize", openMPI, 0, "", means, "display-map"},
		{"show-progress", openMPI, 0, "", same, "a slow start is shown on a terminal"},
		{"output-proctable", openMPI, 0, "", pending, "a table of processes"},
		{"print-rank-map", hydra, 0, "", means, "display-map"},
		{"quiet q", openMPI, 0, "", means, "quiet"},
		{"quiet Q", slurm, 0, "", means, "quiet"},
		{"profile", own, attached, "", pending, "profiles"},
		{"print-all-exitcodes", hydra, 0, "", means, "summary"},
		{"info profile", hydra, 0, "", pending, "what Hydra was built with"},
	}
}

func lifeWords() []word {
	return []word{
		{"timeout", openMPI, 1, "", means, "timeout={}"},
		{"time t", slurm, 1, "", reads, "srun-time"},
		{"spawn-timeout", openMPI, 1, "", means, "start-timeout={}"},
		{"start-timeout", horovod, 1, "", means, "start-timeout={}"},
		{"kill-on-bad-exit K", slurm, attached, "0", refuse, "when a rank fails gorun stops the others; leave it out"},
		{"kill-on-bad-exit K", slurm, attached, "", same, "when a rank fails the others are stopped"},
		{"no-kill k", slurm, attached, "", refuse, "when a host is lost gorun stops the job; leave it out"},
		{"wait W", slurm, 1, "", pending, "when a rank fails the others are stopped"},
		{"enable-auto-cleanup", hydra, 0, "", same, "when a rank fails the others are stopped"},
		{"disable-auto-cleanup dac", hydra, 0, "", refuse, "when a rank fails gorun stops the others; leave it out"},
		{"enable-recovery", openMPI, 0, "", refuse, "when a rank fails gorun stops the others; leave it out"},
		{"disable-recovery", openMPI, 0, "", same, "when a rank fails the others are stopped"},
		{"continuous", openMPI, 0, "", refuse, "when a rank fails gorun stops the others; leave it out"},
		{"max-restarts", openMPI | torch, 1, "0", same, "nothing is started again"},
		{"max-restarts", openMPI | torch, 1, "", pending, "starting failed jobs again"},
		{"forward-signals", openMPI, 1, "", pending, "choosing signals; USR1, USR2 and others are passed on"},
		{"runtime-options", openMPI, 1, "fwd-environment fwd-environment=true", same, "the environment is sent"},
		{"runtime-options", openMPI, 1, "", refuse, "leave it out; gorun help compat lists what there is"},
		{"signal", slurm, 1, "", pending, "signals before the time limit"},
		{"get-stack-traces report-state-on-timeout", openMPI, 0, "", pending, "stacks on a timeout"},
		{"with-ft", openMPI, 1, "", pending, "fault tolerance of MPI"},
	}
}

func startWords() []word {
	return []word{
		{"launcher bootstrap", hydra, 1, "ssh", means, "launcher=ssh"},
		{"launcher bootstrap", hydra, 1, "slurm srun", means, "launcher=srun"},
		{"launcher bootstrap", hydra, 1, "fork local", means, "launcher=local"},
		{"launcher bootstrap", hydra, 1, "rsh", means, "launcher=rsh"},
		{"launcher bootstrap", hydra, 1, "", refuse, "gorun reaches hosts over SSH, by srun in a Slurm job, or by a program of yours: --launch-agent"},
		{"launcher-exec bootstrap-exec", hydra, 1, "", means, "launch-agent={}"},
		{"bootstrap-exec-args", hydra, 1, "", reads, "ssh-args"},
		{"launch-agent", openMPI, 1, "", refuse, "gorun brings its own agent; a remote shell is named by -mca plm_rsh_agent"},
		{"rmk", hydra, 1, "", pending, "choosing the scheduler; it is found by itself"},
		{"ssh-port p", horovod, 1, "", means, "ssh-port={}"},
		{"p", own, 1, "", means, "ssh-port={}"},
		{"ssh-identity-file i", horovod, 1, "", means, "ssh-identity-file={}"},
		{"network-interface network-interfaces", horovod, 1, "", means, "network-interface={}"},
		{"iface", hydra, 1, "", means, "network-interface={}"},
		{"allow-run-as-root", openMPI, 0, "", same, "root may run jobs"},
		{"preload-files", openMPI, 1, "", refuse, "put them into a folder and use --stage DIR, or put them where every host sees them"},
		{"preload-binary s", openMPI, 0, "", refuse, "put the program into a folder and use --stage DIR, or put it where every host sees it"},
		{"bcast", slurm, attached, "", refuse, "put the program into a folder and use --stage DIR, or put it where every host sees it"},
		{"app", openMPI, 1, "", reads, "app"},
		{"configfile", hydra, 1, "", reads, "configfile"},
		{"multi-prog", slurm, 0, "", reads, "multi-prog"},
		{"pty", slurm, attached, "", refuse, "use ssh -t HOST for a terminal there"},
		{"do-not-launch", openMPI, 0, "", means, "dry-run"},
		{"test-only", slurm, 0, "", means, "dry-run"},
		{"debug-devel d tv debug", openMPI, 0, "", refuse, "attach a debugger to the ranks' processes"},
		{"debugger", openMPI, 1, "", refuse, "attach a debugger to the ranks' processes"},
		{"stop-on-exec stop-in-init stop-in-app", openMPI, 0, "", refuse, "attach a debugger to the ranks' processes"},
		{"index-argv-by-rank", openMPI, 0, "", refuse, "the program finds its rank in RANK"},
		{"leave-session-attached debug-daemons debug-daemons-file do-not-resolve daemonize", openMPI, 0, "", pending, "daemons of Open MPI"},
		{"hetero-nodes novm use-regexp enable-instant-on-support fwd-mpirun-port report-child-jobs-separately crdebug dvm", openMPI, 0, "", pending, "daemons of Open MPI"},
		{"hnp ompi-server personality pset launcher-hostfile sstore-load tmpdir", openMPI, 1, "", pending, "daemons of Open MPI"},
		{"app-pmix-prefix pmix-prefix report-events report-uri report-pid", openMPI, 1, "", pending, "daemons of Open MPI"},
		{"initial-errhandler memory-alloc-kinds gpu-support", openMPI, 1, "", pending, "settings of the MPI library"},
		{"nameserver localhost", hydra, 1, "", pending, "daemons of Hydra"},
		{"pmi-port enable-x disable-x", hydra, 0, "", pending, "daemons of Hydra"},
	}
}

func settingWords() []word {
	return []word{
		{"mca gmca omca gomca prtemca pmixmca", openMPI, 2, "", reads, "mca"},
		{"am tune", openMPI, 1, "", refuse, "give its settings with -x and -mca"},
		{"mpi-args", horovod, 1, "", reads, "mpi-args"},
	}
}
