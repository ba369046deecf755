package dialect

// action is how gorun translates a word.
type action uint8

const (
	means   action = iota // it is a flag of gorun
	reads                 // a reader translates it
	same                  // gorun does so by default
	pending               // accepted without effect
	instead               // accepted, gorun works differently
	refuse                // rejected: the job would behave differently
)

// Numbers of values that are not fixed.
const (
	attached = -1 // an optional value after =
	pair     = -2 // NAME=value, or NAME and value as two words
)

// word is a row of the translation table.
type word struct {
	names string  // its spellings without dashes, the usual one first
	of    Dialect // launchers that have it
	args  int     // values that follow, or attached or pair
	is    string  // the values of this row; "": all others
	does  action
	// to depends on the action. means: gorun's flag, with {} for the value; reads: the reader's
	// name; same: reason; pending: missing feature; instead: gorun's way; refuse: alternative.
	to string
}

// words returns the table. Among a launcher's rows of a word the first that fits the value applies; all take the same
// number of values.
func words() (table []word) {
	for _, part := range [][]word{countWords(), hostWords(), placementWords(), environmentWords(), outputWords(),
		lifeWords(), startWords(), settingWords(), horovodWords(), slurmWords(), torchWords(), plainWords()} {
		table = append(table, part...)
	}
	return table
}

func countWords() []word {
	return []word{
		{"np n c", OpenMPI, 1, "", means, "np={}"},
		{"n np", Hydra, 1, "", means, "np={}"},
		{"np num-proc", Horovod, 1, "", means, "np={}"},
		{"ntasks n", Slurm, 1, "", means, "np={}"},
		{"npernode N", OpenMPI, 1, "", means, "ppn={}"},
		{"pernode", OpenMPI, 0, "", means, "ppn=1"},
		{"ppn perhost grr", Hydra, 1, "", means, "ppn={}"},
		{"rr", Hydra, 0, "", means, "map-by=node"},
		{"ntasks-per-node", Slurm, 1, "", means, "ppn={}"},
		{"nodes N", Slurm, 1, "", means, "nodes={}"},
		{"nproc-per-node", Torch, 1, "auto gpu cpu", refuse, "write how many ranks each host gets: --nproc-per-node 4"},
		{"nproc-per-node", Torch, 1, "", means, "ppn={}"},
		{"nnodes", Torch, 1, "", reads, "nodes"},
		{"npersocket ppr", OpenMPI, 1, "", refuse, "say how many ranks each host gets: --ppn N"},
		{"oversubscribe", OpenMPI, 0, "", same, "more ranks than slots are allowed, with a warning"},
		{"overcommit O", Slurm, 0, "", same, "more ranks than slots are allowed, with a warning"},
		{"nooversubscribe no-oversubscribe", OpenMPI, 0, "", means, "no-oversubscribe"},
		{"max-vm-size", OpenMPI, 1, "", refuse, "name fewer hosts, or use --nodes N"},
		{"usize", Hydra, 1, "", pending, "universe size of MPI-2"},
	}
}

func hostWords() []word {
	return []word{
		{"host H", OpenMPI, 1, "", means, "hosts={}"},
		{"hosts host hostlist machine machines machinelist", Hydra, 1, "", means, "hosts={}"},
		{"hosts H", Horovod, 1, "", means, "hosts={}"},
		{"nodelist w", Slurm, 1, "", reads, "nodelist"},
		{"hostfile machinefile default-hostfile", OpenMPI, 1, "", means, "hostfile={}"},
		{"f hostfile machinefile", Hydra, 1, "", means, "hostfile={}"},
		{"hostfile", Horovod, 1, "", means, "hostfile={}"},
		{"nodefile F", Slurm, 1, "", means, "hostfile={}"},
		{"nolocal", OpenMPI, 0, "", refuse, "leave this machine out of -H or the hostfile"},
		{"skip-launch-node", Hydra, 0, "", refuse, "leave this machine out of -H or the hostfile"},
		{"exclude x", Slurm, 1, "", refuse, "name the hosts to use with -w or -H"},
		{"relative r", Slurm, 1, "", refuse, "name the hosts to use with -w or -H"},
		{"host-discovery-script", Horovod, 1, "", means, "host-discovery-script={}"},
		{"slots-per-host", Horovod, 1, "", means, "slots-per-host={}"},
		{"min-np min-num-proc", Horovod, 1, "", means, "min-np={}"},
		{"max-np max-num-proc", Horovod, 1, "", means, "max-np={}"},
		{"elastic-timeout", Horovod, 1, "", means, "elastic-timeout={}"},
		{"reset-limit", Horovod, 1, "", means, "reset-limit={}"},
		{"blacklist-cooldown-range", Horovod, 2, "", means, "blacklist-cooldown-range={}"},
	}
}

func environmentWords() []word {
	return []word{
		{"x", OpenMPI, 1, "", means, "export={}"},
		{"set-env", OpenMPI, 1, "", means, "export={}"},
		{"unset-env", OpenMPI, 1, "", means, "unset-env={}"},
		{"prepend-env append-env", OpenMPI, 2, "", refuse, "give the whole value: -x NAME=value"},
		{"genv env", Hydra, pair, "", means, "export={}"},
		{"genvlist envlist", Hydra, 1, "", reads, "envlist"},
		{"genvexcl", Hydra, 1, "", reads, "envexcl"},
		{"genvall envall", Hydra, 0, "", same, "the environment is sent"},
		{"genvnone envnone", Hydra, 0, "", means, "no-env"},
		{"export", Slurm, 1, "", reads, "srun-export"},
		{"wdir wd", OpenMPI | Hydra, 1, "", means, "wdir={}"},
		{"chdir D", Slurm, 1, "", means, "wdir={}"},
		{"path", OpenMPI, 1, "", refuse, "name the program by its path"},
		{"set-cwd-to-session-dir", OpenMPI, 0, "", refuse, "choose the directory with --wdir"},
		{"prefix", OpenMPI, 1, "host rank horovod mpirun none", means, "prefix={}"},
		{"prefix", OpenMPI, 1, "", reads, "prefix"},
		{"noprefix no-app-prefix", OpenMPI, 0, "", same, "nothing is put before PATH"},
	}
}

func outputWords() []word {
	return []word{
		{"tag-output", OpenMPI, 0, "", means, "prefix=mpirun"},
		{"l prepend-rank", Hydra, 0, "", means, "prefix=rank"},
		{"label l", Slurm, 0, "", means, "prefix=%r: "},
		{"l", Own, 0, "", means, "prefix=rank"},
		{"prepend-pattern", Hydra, 1, "", reads, "pattern"},
		{"timestamp-output", OpenMPI, 0, "", means, "timestamp"},
		{"prefix-timestamp prefix-output-with-timestamp", Horovod, 0, "", means, "timestamp"},
		{"output-filename", OpenMPI, 1, "", reads, "output-filename"},
		{"output-filename", Horovod, 1, "", means, "output-filename={}"},
		{"outfile-pattern outfile", Hydra, 1, "", reads, "hydra-outfile"},
		{"errfile-pattern errfile", Hydra, 1, "", reads, "hydra-errfile"},
		{"output", OpenMPI, 1, "", reads, "output"},
		{"output", Own, 1, "", reads, "output"},
		{"output o", Slurm, 1, "", reads, "srun-output"},
		{"error e", Slurm, 1, "", reads, "srun-error"},
		{"merge-stderr-to-stdout", OpenMPI, 0, "", means, "merge-stderr"},
		{"xml", OpenMPI, 0, "", refuse, "output is text; --prefix marks its lines"},
		{"xml-file", OpenMPI, 1, "", refuse, "output is text; --prefix marks its lines"},
		{"xterm", OpenMPI, 1, "", refuse, "use --output-filename DIR to see each rank alone"},
		{"stream-buffering", OpenMPI, 1, "", pending, "lines are always written whole"},
		{"unbuffered u", Slurm, 0, "", pending, "lines are always written whole"},
		{"stdin", OpenMPI, 1, "", means, "stdin={}"},
		{"stdin s", Hydra, 1, "", means, "stdin={}"},
		{"input i", Slurm, 1, "", reads, "srun-input"},
		{"demux", Hydra, 1, "", same, "gorun always waits without polling"},
		{"output-from", Hydra, 1, "", means, "show={}"},
		{"display-map display-devel-map display-diffable-map", OpenMPI, 0, "", means, "display-map"},
		{"display", OpenMPI, 1, "", reads, "display"},
		{"display-allocation display-devel-allocation display-topo display-comm display-comm-finalize", OpenMPI, 0, "", means, "display-map"},
		{"show-progress", OpenMPI, 0, "", same, "a slow start is shown on a terminal"},
		{"output-proctable", OpenMPI, 0, "", pending, "a table of processes"},
		{"print-rank-map", Hydra, 0, "", means, "display-map"},
		{"quiet q", OpenMPI, 0, "", means, "quiet"},
		{"quiet Q", Slurm, 0, "", means, "quiet"},
		{"profile", Own, attached, "", pending, "profiles"},
		{"print-all-exitcodes", Hydra, 0, "", means, "summary"},
		{"info profile", Hydra, 0, "", pending, "what Hydra was built with"},
	}
}

func lifeWords() []word {
	return []word{
		{"timeout", OpenMPI, 1, "", means, "timeout={}"},
		{"time t", Slurm, 1, "", reads, "srun-time"},
		{"spawn-timeout", OpenMPI, 1, "", means, "start-timeout={}"},
		{"start-timeout", Horovod, 1, "", means, "start-timeout={}"},
		{"kill-on-bad-exit K", Slurm, attached, "0", refuse, "when a rank fails gorun stops the others; leave it out"},
		{"kill-on-bad-exit K", Slurm, attached, "", same, "when a rank fails the others are stopped"},
		{"no-kill k", Slurm, attached, "", refuse, "when a host is lost gorun stops the job; leave it out"},
		{"wait W", Slurm, 1, "", pending, "when a rank fails the others are stopped"},
		{"enable-auto-cleanup", Hydra, 0, "", same, "when a rank fails the others are stopped"},
		{"disable-auto-cleanup dac", Hydra, 0, "", refuse, "when a rank fails gorun stops the others; leave it out"},
		{"enable-recovery", OpenMPI, 0, "", refuse, "when a rank fails gorun stops the others; leave it out"},
		{"disable-recovery", OpenMPI, 0, "", same, "when a rank fails the others are stopped"},
		{"continuous", OpenMPI, 0, "", refuse, "when a rank fails gorun stops the others; leave it out"},
		{"max-restarts", OpenMPI | Torch, 1, "0", same, "nothing is started again"},
		{"max-restarts", OpenMPI | Torch, 1, "", means, "max-restarts={}"},
		{"forward-signals", OpenMPI, 1, "", pending, "choosing signals; USR1, USR2 and others are passed on"},
		{"runtime-options", OpenMPI, 1, "fwd-environment fwd-environment=true", same, "the environment is sent"},
		{"runtime-options", OpenMPI, 1, "", refuse, "leave it out; gorun help compat lists what there is"},
		{"signal", Slurm, 1, "", pending, "signals before the time limit"},
		{"get-stack-traces report-state-on-timeout", OpenMPI, 0, "", pending, "stacks on a timeout"},
		{"with-ft", OpenMPI, 1, "", pending, "fault tolerance of MPI"},
	}
}

func startWords() []word {
	return []word{
		{"launcher bootstrap", Hydra, 1, "ssh", means, "launcher=ssh"},
		{"launcher bootstrap", Hydra, 1, "slurm srun", means, "launcher=srun"},
		{"launcher bootstrap", Hydra, 1, "fork local", means, "launcher=local"},
		{"launcher bootstrap", Hydra, 1, "rsh", means, "launcher=rsh"},
		{"launcher bootstrap", Hydra, 1, "", refuse, "gorun reaches hosts over SSH, by srun in a Slurm job, or by a program of yours: --launch-agent"},
		{"launcher-exec bootstrap-exec", Hydra, 1, "", means, "launch-agent={}"},
		{"bootstrap-exec-args", Hydra, 1, "", reads, "ssh-args"},
		{"launch-agent", OpenMPI, 1, "", refuse, "gorun brings its own agent; a remote shell is named by -mca plm_rsh_agent"},
		{"rmk", Hydra, 1, "", pending, "choosing the scheduler; it is found by itself"},
		{"ssh-port p", Horovod, 1, "", means, "ssh-port={}"},
		{"p", Own, 1, "", means, "ssh-port={}"},
		{"ssh-identity-file i", Horovod, 1, "", means, "ssh-identity-file={}"},
		{"network-interface network-interfaces", Horovod, 1, "", means, "network-interface={}"},
		{"iface", Hydra, 1, "", means, "network-interface={}"},
		{"allow-run-as-root", OpenMPI, 0, "", same, "root may run jobs"},
		{"preload-files", OpenMPI, 1, "", refuse, "put them into a folder and use --stage DIR, or put them where every host sees them"},
		{"preload-binary s", OpenMPI, 0, "", refuse, "put the program into a folder and use --stage DIR, or put it where every host sees it"},
		{"bcast", Slurm, attached, "", refuse, "put the program into a folder and use --stage DIR, or put it where every host sees it"},
		{"app", OpenMPI, 1, "", reads, "app"},
		{"configfile", Hydra, 1, "", reads, "configfile"},
		{"multi-prog", Slurm, 0, "", reads, "multi-prog"},
		{"pty", Slurm, attached, "", refuse, "use ssh -t HOST for a terminal there"},
		{"do-not-launch", OpenMPI, 0, "", means, "dry-run"},
		{"test-only", Slurm, 0, "", means, "dry-run"},
		{"debug-devel d tv debug", OpenMPI, 0, "", refuse, "attach a debugger to the ranks' processes"},
		{"debugger", OpenMPI, 1, "", refuse, "attach a debugger to the ranks' processes"},
		{"stop-on-exec stop-in-init stop-in-app", OpenMPI, 0, "", refuse, "attach a debugger to the ranks' processes"},
		{"index-argv-by-rank", OpenMPI, 0, "", refuse, "the program finds its rank in RANK"},
		{"leave-session-attached debug-daemons debug-daemons-file do-not-resolve daemonize", OpenMPI, 0, "", pending, "daemons of Open MPI"},
		{"hetero-nodes novm use-regexp enable-instant-on-support fwd-mpirun-port report-child-jobs-separately crdebug dvm", OpenMPI, 0, "", pending, "daemons of Open MPI"},
		{"hnp ompi-server personality pset launcher-hostfile sstore-load tmpdir", OpenMPI, 1, "", pending, "daemons of Open MPI"},
		{"app-pmix-prefix pmix-prefix report-events report-uri report-pid", OpenMPI, 1, "", pending, "daemons of Open MPI"},
		{"initial-errhandler memory-alloc-kinds gpu-support", OpenMPI, 1, "", pending, "settings of the MPI library"},
		{"nameserver localhost", Hydra, 1, "", pending, "daemons of Hydra"},
		{"pmi-port enable-x disable-x", Hydra, 0, "", pending, "daemons of Hydra"},
	}
}

func settingWords() []word {
	return []word{
		{"mca gmca omca gomca prtemca pmixmca", OpenMPI, 2, "", reads, "mca"},
		{"am tune", OpenMPI, 1, "", refuse, "give its settings with -x and -mca"},
		{"mpi-args", Horovod, 1, "", reads, "mpi-args"},
	}
}
