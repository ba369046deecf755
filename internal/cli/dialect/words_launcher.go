package dialect

// horovodWords returns horovodrun's own flags; most set a variable that its library reads.
func horovodWords() []word {
	return []word{
		{"check-build cb", Horovod, 0, "", means, "version"},
		{"version v", Horovod, 0, "", means, "version"},
		{"gloo", Horovod, 0, "", same, "Horovod's ranks find each other through gorun and use Gloo"},
		{"mpi jsrun", Horovod, 0, "", instead, "gorun starts the ranks itself, without mpirun or jsrun, and they use Gloo, also where Horovod was built with MPI"},
		{"disable-cache", Horovod, 0, "", same, "nothing about hosts is remembered"},
		{"config-file", Horovod, 1, "", means, "config-file={}"},
		{"fusion-threshold-mb", Horovod, 1, "", reads, "fusion"},
		{"cycle-time-ms", Horovod, 1, "", means, "export=HOROVOD_CYCLE_TIME={}"},
		{"cache-capacity", Horovod, 1, "", means, "export=HOROVOD_CACHE_CAPACITY={}"},
		{"hierarchical-allreduce", Horovod, 0, "", means, "export=HOROVOD_HIERARCHICAL_ALLREDUCE=1"},
		{"no-hierarchical-allreduce", Horovod, 0, "", means, "export=HOROVOD_HIERARCHICAL_ALLREDUCE=0"},
		{"hierarchical-allgather", Horovod, 0, "", means, "export=HOROVOD_HIERARCHICAL_ALLGATHER=1"},
		{"no-hierarchical-allgather", Horovod, 0, "", means, "export=HOROVOD_HIERARCHICAL_ALLGATHER=0"},
		{"torus-allreduce", Horovod, 0, "", means, "export=HOROVOD_TORUS_ALLREDUCE=1"},
		{"no-torus-allreduce", Horovod, 0, "", means, "export=HOROVOD_TORUS_ALLREDUCE=0"},
		{"autotune", Horovod, 0, "", means, "export=HOROVOD_AUTOTUNE=1"},
		{"no-autotune", Horovod, 0, "", means, "export=HOROVOD_AUTOTUNE=0"},
		{"autotune-log-file", Horovod, 1, "", means, "export=HOROVOD_AUTOTUNE_LOG={}"},
		{"autotune-warmup-samples", Horovod, 1, "", means, "export=HOROVOD_AUTOTUNE_WARMUP_SAMPLES={}"},
		{"autotune-steps-per-sample", Horovod, 1, "", means, "export=HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE={}"},
		{"autotune-bayes-opt-max-samples", Horovod, 1, "", means, "export=HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES={}"},
		{"autotune-gaussian-process-noise", Horovod, 1, "", means, "export=HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE={}"},
		{"timeline-filename", Horovod, 1, "", means, "export=HOROVOD_TIMELINE={}"},
		{"timeline-mark-cycles", Horovod, 0, "", means, "export=HOROVOD_TIMELINE_MARK_CYCLES=1"},
		{"no-timeline-mark-cycles", Horovod, 0, "", means, "export=HOROVOD_TIMELINE_MARK_CYCLES=0"},
		{"stall-check", Horovod, 0, "", means, "export=HOROVOD_STALL_CHECK_DISABLE=0"},
		{"no-stall-check", Horovod, 0, "", means, "export=HOROVOD_STALL_CHECK_DISABLE=1"},
		{"stall-check-warning-time-seconds", Horovod, 1, "", means, "export=HOROVOD_STALL_CHECK_TIME_SECONDS={}"},
		{"stall-check-shutdown-time-seconds", Horovod, 1, "", means, "export=HOROVOD_STALL_SHUTDOWN_TIME_SECONDS={}"},
		{"mpi-threads-disable", Horovod, 0, "", means, "export=HOROVOD_MPI_THREADS_DISABLE=1"},
		{"no-mpi-threads-disable", Horovod, 0, "", means, "export=HOROVOD_MPI_THREADS_DISABLE=0"},
		{"num-nccl-streams", Horovod, 1, "", means, "export=HOROVOD_NUM_NCCL_STREAMS={}"},
		{"thread-affinity", Horovod, 1, "", means, "export=HOROVOD_THREAD_AFFINITY={}"},
		{"gloo-timeout-seconds", Horovod, 1, "", means, "export=HOROVOD_GLOO_TIMEOUT_SECONDS={}"},
		{"tcp", Horovod, 0, "", means, "export=NCCL_IB_DISABLE=1"},
		{"log-level", Horovod, 1, "", means, "export=HOROVOD_LOG_LEVEL={}"},
		{"log-with-timestamp no-log-hide-timestamp", Horovod, 0, "", means, "export=HOROVOD_LOG_HIDE_TIME=0"},
		{"log-without-timestamp log-hide-timestamp", Horovod, 0, "", means, "export=HOROVOD_LOG_HIDE_TIME=1"},
	}
}

func slurmWords() []word {
	return []word{
		{"partition p", Slurm, 1, "", pending, "asking the scheduler for nodes"},
		{"account A job-name J qos q reservation constraint C mem mem-per-cpu mem-per-gpu", Slurm, 1, "", pending, "asking the scheduler for nodes"},
		{"gres gpus G gpus-per-node tres-per-task sockets-per-node cores-per-socket mincpus tmp", Slurm, 1, "", pending, "asking the scheduler for nodes"},
		{"begin deadline dependency d licenses L comment time-min switches nice priority extra-node-info B", Slurm, 1, "", pending, "asking the scheduler for nodes"},
		{"jobid mail-type mail-user profile acctg-freq core-spec S msg-timeout", Slurm, 1, "", pending, "asking the scheduler for nodes"},
		{"exclusive immediate I propagate", Slurm, attached, "", pending, "asking the scheduler for nodes"},
		{"overlap exact contiguous use-min-nodes whole spread-job disable-status X preserve-env E reboot", Slurm, 0, "", pending, "asking the scheduler for nodes"},
		{"hold H", Slurm, 0, "", refuse, "leave it out; gorun starts jobs at once"},
		{"mpi", Slurm, 1, "none pmi2 list", same, "ranks find PMI-1 without it"},
		{"mpi", Slurm, 1, "", pending, "PMIx; for programs of Open MPI up to 4.1 gorun has --mpi ompi4"},
		{"het-group prolog epilog task-prolog task-epilog slurmd-debug threads T open-mode", Slurm, 1, "", refuse, "leave it out; gorun help compat lists what there is"},
	}
}

func torchWords() []word {
	return []word{
		{"module m", Torch, 0, "", reads, "module"},
		{"no-python", Torch, 0, "", reads, "no-python"},
		{"standalone", Torch, 0, "", same, "without -H the ranks run on this machine"},
		{"node-rank", Torch, 1, "0", same, "one gorun starts the ranks of all hosts"},
		{"node-rank", Torch, 1, "", refuse, "one gorun starts the ranks of all hosts: run it once, with -H"},
		{"master-port", Torch, 1, "", means, "export=MASTER_PORT={}"},
		{"master-addr rdzv-endpoint rdzv-backend rdzv-id rdzv-conf local-addr", Torch, 1, "", pending, "choosing the meeting point: MASTER_ADDR is an address of rank 0's host"},
		{"monitor-interval role start-method logs-specs", Torch, 1, "", pending, "torchrun's own agent"},
		{"run-path", Torch, 0, "", refuse, "name the script"},
		{"log-dir", Torch, 1, "", means, "output-filename={}"},
		{"redirects r", Torch, 1, "", reads, "redirects"},
		{"tee t", Torch, 1, "", reads, "tee"},
		{"local-ranks-filter", Torch, 1, "", pending, "output of some ranks only"},
	}
}

// plainWords returns flags about gorun itself.
func plainWords() []word {
	return []word{
		{"help h", OpenMPI | Hydra | Horovod | Slurm | Torch | Own, 0, "", means, "help"},
		{"version V", OpenMPI | Hydra | Slurm | Own, 0, "", means, "version"},
		{"verbose v", OpenMPI | Hydra | Slurm, 0, "", means, "verbose"},
		{"verbose", Horovod, 0, "", means, "verbose"},
	}
}

// mcaWords returns the settings of Open MPI (-mca NAME value, OMPI_MCA_NAME and PRTE_MCA_NAME) that concern a
// launcher.
func mcaWords() []word {
	return append(mcaPlacementWords(), []word{
		{"plm_rsh_agent pls_rsh_agent orte_rsh_agent plm_ssh_agent", OpenMPI, 1, "", reads, "rsh-agent"},
		{"plm_rsh_args plm_ssh_args", OpenMPI, 1, "", reads, "ssh-args"},
		{"plm_rsh_no_tree_spawn plm_ssh_no_tree_spawn", OpenMPI, 1, "", same, "gorun connects to every host itself"},
		{"plm_rsh_num_concurrent plm_ssh_num_concurrent", OpenMPI, 1, "", same, "gorun connects to every host itself"},
		{"plm_slurm_args", OpenMPI, 1, "--external-launcher", same, "gorun gives it to srun where srun knows it"},
		{"plm_slurm_args", OpenMPI, 1, "", pending, "options for srun"},
		{"orte_default_hostfile prte_default_hostfile", OpenMPI, 1, "", reads, "default-hostfile"},
		{"orte_keep_fqdn_hostnames prte_keep_fqdn_hostnames", OpenMPI, 1, "", same, "names of hosts are kept whole"},
		{"orte_set_default_slots prte_set_default_slots", OpenMPI, 1, "", reads, "default-slots"},
		{"orte_abort_on_non_zero_status", OpenMPI, 1, "1 true t yes y", same, "when a rank fails the others are stopped"},
		{"orte_abort_on_non_zero_status", OpenMPI, 1, "", refuse, "when a rank fails gorun stops the others; leave it out"},
		{"odls_base_sigkill_timeout", OpenMPI, 1, "", means, "grace={}"},
		{"ess_base_forward_signals", OpenMPI, 1, "", pending, "choosing signals; USR1, USR2 and others are passed on"},
		{"mca_base_env_list", OpenMPI, 1, "", reads, "mca-env-list"},
		{"oob_tcp_if_include btl_tcp_if_include prte_if_include", OpenMPI, 1, "", means, "network-interface={}"},
		{"oob_tcp_if_exclude btl_tcp_if_exclude prte_if_exclude", OpenMPI, 1, "", means, "network-interface=^{}"},
		{"orte_tag_output prte_tag_output", OpenMPI, 1, "1 true t yes y", means, "prefix=mpirun"},
		{"orte_tag_output prte_tag_output", OpenMPI, 1, "", same, "--prefix marks the lines"},
		{"orte_timestamp_output prte_timestamp_output", OpenMPI, 1, "1 true t yes y", means, "timestamp"},
		{"orte_timestamp_output prte_timestamp_output", OpenMPI, 1, "", same, "--timestamp puts times before lines"},
	}...)
}
