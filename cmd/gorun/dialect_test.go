package main

import (
	"slices"
	"strings"
	"testing"
)

// TestDialects reads whole command lines of every launcher. want are the flags of ours
// and the program; blanks inside words are written ·.
func TestDialects(t *testing.T) {
	for _, tc := range []struct {
		dialect            launchers
		argv, want, notice string
	}{
		{OpenMPI, "-np 4 -N 2 -H f1:2,f2:2 ./a -N 3", "--np=4 --ppn=2 --hosts=f1:2,f2:2 -- ./a -N 3", ""},
		{OpenMPI, "-c 4 -npernode 2 a", "--np=4 --ppn=2 -- a", ""},
		{OpenMPI, "-np 4 --map-by ppr:2:node:oversubscribe --rank-by slot --bind-to core a", "--np=4 --ppn=2 --rank-by=slot --bind-to=core -- a", ""},
		{OpenMPI, "--map-by :NOOVERSUBSCRIBE a", "--no-oversubscribe -- a", ""},
		{OpenMPI, "--map-by slot:PE=4 a", "--map-by=slot --cpus-per-rank=4 -- a", ""},
		{OpenMPI, "-bynode --rank-by SLOT --report-bindings --cpus-per-proc 2 --bind-to-socket a", "--map-by=node --rank-by=slot --report-bindings --cpus-per-rank=2 --bind-to=socket -- a", ""},
		{OpenMPI, "--map-by core:hwtcpus --display bindings -mca rmaps_base_ranking_policy node a", "--map-by=slot --report-bindings --rank-by=node -- a", "no effect yet: --map-by core:hwtcpus"},
		{OpenMPI, "-mca hwloc_base_binding_policy core:overload-allowed -mca rmaps_base_mapping_policy node a", "--bind-to=core:overload-allowed --map-by=node -- a", ""},
		{OpenMPI, "-x A -x B=1=2 -x C* --set-env D=3 --unset-env E a", "--export=A --export=B=1=2 --export=C* --export=D=3 --unset-env=E -- a", ""},
		{OpenMPI, "-mca plm_rsh_args -p·2222·-i·k·-o·StrictHostKeyChecking=no -mca odls_base_sigkill_timeout 9 a", "--launch-agent-args=-p·2222·-i·k·-o·StrictHostKeyChecking=no --ssh-port=2222 --ssh-identity-file=k --host-keys=accept-new --grace=9 -- a", ""},
		{OpenMPI, "-mca plm_rsh_agent kubexec.sh·-v:ssh -mca plm_rsh_num_concurrent 9 -mca plm_rsh_no_tree_spawn 1 a", "--launch-agent=kubexec.sh·-v·:·ssh -- a", ""},
		{Hydra, "-launcher rsh -launcher-exec ./agent -bootstrap-exec-args -q a", "--launcher=rsh --launch-agent=./agent --launch-agent-args=-q -- a", ""},
		{OpenMPI, "-mca btl_tcp_if_include eth0 -mca mca_base_env_list A;B=1 -mca orte_tag_output 1 a", "--network-interface=eth0 --export=A --export=B=1 --prefix=mpirun -- a", ""},
		{OpenMPI, "--prtemca rmaps_default_mapping_policy ppr:3:node --omca hwloc_default_binding_policy none -mca orte_abort_on_non_zero_status 1 a", "--ppn=3 --bind-to=none -- a", ""},
		{OpenMPI, "-mca pml ob1 -mca btl ^openib -mca pml ob1 a", "-- a", "ignored Open MPI settings: pml=ob1 btl=^openib"},
		{OpenMPI, "--output tag,merge,dir=D --display map -l a", "--prefix=mpirun --merge-stderr --output-filename=D --display-map --prefix=rank -- a", ""},
		{OpenMPI, "--prefix /opt/openmpi -wdir /w --timeout 60 --stdin none a", "--wdir=/w --timeout=60 --stdin=none -- a", "no effect yet: --prefix"},
		{OpenMPI, "--prefix horovod -mca orte_default_hostfile f a", "--prefix=horovod --hostfile=f -- a", ""},
		{OpenMPI, "-H a -mca orte_default_hostfile f version", "--hosts=a -- version", ""},
		{OpenMPI, "-V", "version", ""},
		{Hydra, "-n 4 -ppn 2 -hosts a,b -l ./a", "--np=4 --ppn=2 --hosts=a,b --prefix=rank -- ./a", ""},
		{Hydra, "-f hosts -genv A 1 -genv B=2 -env C 3 -iface eth0 a", "--hostfile=hosts --export=A=1 --export=B=2 --export=C=3 --network-interface=eth0 -- a", ""},
		{Hydra, "-genvnone -genvlist A,B -genvexcl C,D a", "--no-env --no-env --export=A --export=B --unset-env=C --unset-env=D -- a", ""},
		{Hydra, "-genvall -launcher ssh -bind-to none -map-by slot -prepend-pattern [%r@%h] a", "--launcher=ssh --bind-to=none --prefix=[%r@%h] -- a", ""},
		{Hydra, "-rr -rmk slurm -print-all-exitcodes -stdin none a", "--map-by=node --summary --stdin=none -- a", "no effect yet: -rmk"},
		{Hydra, "-bind-to core:2 -map-by core a", "--bind-to=core --cpus-per-rank=2 -- a", ""},
		{Hydra, "-bind-to rr a", "--bind-to=hwthread -- a", ""},
		{Horovod, "-np 4 -p 2222 -i key -H a:2,b:2 --network-interfaces eth0 --verbose python t.py -p 1", "--np=4 --ssh-port=2222 --ssh-identity-file=key --hosts=a:2,b:2 --network-interface=eth0 --verbose -- python t.py -p 1", ""},
		{Horovod, "-np 2 --fusion-threshold-mb 32 --cycle-time-ms 3.5 --no-hierarchical-allreduce --autotune --no-stall-check --tcp a",
			"--np=2 --export=HOROVOD_FUSION_THRESHOLD=33554432 --export=HOROVOD_CYCLE_TIME=3.5 --export=HOROVOD_HIERARCHICAL_ALLREDUCE=0 --export=HOROVOD_AUTOTUNE=1 --export=HOROVOD_STALL_CHECK_DISABLE=1 --export=NCCL_IB_DISABLE=1 -- a", ""},
		{Horovod, "--min-np 2 --max-np 4 --host-discovery-script ./d.sh --slots 2 --reset-limit 3 --blacklist-cooldown-range 1 2 a", "--min-np=2 --max-np=4 --host-discovery-script=./d.sh --slots-per-host=2 -- a", "no effect yet: --reset-limit --blacklist-cooldown-range"},
		{Horovod, "-np 2 --mpi-args --mca·orte_keep_fqdn_hostnames·t·--tag-output·-x·'A=b·c'·-mca·pml·ob1 --gloo a", "--np=2 --prefix=mpirun --export=A=b·c -- a", "ignored Open MPI settings: pml=ob1; no effect yet: --gloo"},
		{Horovod, "-v", "version", ""},
		{Slurm, "-N 2 -n 8 -w n[1-2] -c 4 -l -t 10 a", "--nodes=2 --np=8 --hosts=n[1-2] --bind-to=none --cpus-per-rank=4 --prefix=%r:· --timeout=10m0s -- a", ""},
		{Slurm, "--cpu-bind=verbose,cores -c 2 -m cyclic a", "--report-bindings --bind-to=core --cpus-per-rank=2 --map-by=node -- a", ""},
		{Slurm, "-c 2 --cpu-bind=sockets --cpu-bind=map_cpu:0,1 a", "--bind-to=none --cpus-per-rank=2 --bind-to=socket -- a", "no effect yet: --cpu-bind map_cpu:0,1"},
		{Slurm, "-N2 -n8 --ntasks-per-node=4 -K1 -K -t 1-2:03:04 -p gpu -D /w a", "--nodes=2 --np=8 --ppn=4 --timeout=26h3m4s --wdir=/w -- a", "no effect yet: -p"},
		{Slurm, "--export=ALL,A=1,B --input=none --cpu-bind=none --mpi=pmix -Ol a", "--export=A=1 --export=B --stdin=none --bind-to=none --prefix=%r:· -- a", "no effect yet: --mpi"},
		{Slurm, "--export=NONE -i none --kill-on-bad-exit --gres=gpu:1 -J name -t 0 --input all a", "--no-env --stdin=none --stdin=all -- a", "no effect yet: --gres -J"},
		{Slurm, "-w ./nodes a", "--hostfile=./nodes -- a", ""},
		{OpenMPI, "--output-filename D:nojobid,nocopy a", "--output-filename=D --hide=all -- a", ""},
		{OpenMPI, "--output-filename D:nojobid --output tag,dir=E:nojobid,nocopy --stdin all a", "--output-filename=D --prefix=mpirun --output-filename=E --hide=all --stdin=all -- a", ""},
		{Torch, "--nnodes 2 --nproc_per_node=4 --rdzv_backend c10d --master-addr a train.py --lr 1", "--nodes=2 --ppn=4 -- python -u train.py --lr 1", "no effect yet: --rdzv_backend --master-addr"},
		{Torch, "--nproc-per-node 4 --standalone -m pkg.train -x", "--ppn=4 -- python -u -m pkg.train -x", ""},
		{Torch, "--nproc-per-node 4 --no-python --node-rank 0 -t 3 ./a", "--ppn=4 -- ./a", ""},
		{Hydra, "-outfile-pattern o.%r -errfile-pattern e.%h.%r a", "--stdout-file=o.%r --stderr-file=e.%h.%r -- a", ""},
		{Slurm, "-o job%j_%3t.out a", "--stdout-file=job%j_%3r.out --stderr-file=job%j_%3r.out -- a", ""},
		{Slurm, "-e e.%N.%t --output=none -o all a", "--stderr-file=e.%h.%r --stdout-file=/dev/null -- a", ""},
		{Torch, "--log-dir D --redirects 3 --no-python ./a", "--output-filename=D --hide=all -- ./a", ""},
		{Torch, "--log-dir D -r 3 --tee=1 --no-python ./a", "--output-filename=D --hide=all --hide=stderr -- ./a", ""},
		{Torch, "-t 3 -r 1 --no-python ./a", "-- ./a", ""},
		{Own, "-np 2 -p 22 -i key -l -genv A=1 --ntasks-per-node 2 --nproc-per-node 3 a", "--np=2 --ssh-port=22 --ssh-identity-file=key --prefix=rank --export=A=1 --ppn=2 --ppn=3 -- a", ""},
		{Own, "--map-by node:pe=2 --rank-by node --bind-to package a", "--map-by=node --cpus-per-rank=2 --rank-by=node --bind-to=package -- a", ""},
		{Own, "--dialect srun -N2 a", "--nodes=2 -- a", ""},
		{Own, `-N 2 --dialect mpirun a \:`, "--ppn=2 -- a :", ""},
		{OpenMPI, "-N 2 --dialect=srun --dialect=srun a", "--nodes=2 -- a", ""},
	} {
		flags, _ := flagSet()
		var argv []string
		for w := range strings.FieldsSeq(tc.argv) {
			argv = append(argv, strings.ReplaceAll(w, "·", " "))
		}
		got, err := translate(argv, tc.dialect, flags, nil)
		if shown := strings.ReplaceAll(strings.Join(got.args, "\x00"), " ", "·"); err != nil || strings.ReplaceAll(shown, "\x00", " ") != tc.want || got.notice() != tc.notice {
			t.Errorf("%v: %q: %v\n got %q\nwant %q\nnotice %q, want %q", tc.dialect, argv, err, got.args, tc.want, got.notice(), tc.notice)
		}
		if err == nil && !slices.Equal(got.args, []string{"version"}) {
			if err := flags.Parse(got.args); err != nil {
				t.Errorf("%q: %v", got.args, err)
			}
		}
	}
}

func TestWhichDialect(t *testing.T) {
	for _, tc := range []struct {
		program, variable string
		want              launchers
	}{
		{"gorun", "", Own}, {"/usr/bin/gorun-1.2", "", Own}, {"/opt/bin/mpirun", "", OpenMPI}, {"mpiexec", "", OpenMPI},
		{"mpiexec.hydra", "", Hydra}, {"horovodrun", "", Horovod}, {"srun", "", Slurm}, {"torchrun", "", Torch},
		{"gorun", "srun", Slurm}, {"mpirun", "gorun", Own}, {"mpirun", "hydra", Hydra},
	} {
		got, err := chooseDialect(tc.program, lookupIn(map[string]string{"GORUN_DIALECT": tc.variable}))
		if err != nil || got != tc.want {
			t.Errorf("%s, GORUN_DIALECT=%s: %v, %v", tc.program, tc.variable, got, err)
		}
	}
	if _, err := chooseDialect("gorun", lookupIn(map[string]string{"GORUN_DIALECT": "mpich3"})); err == nil || hint(err) == "" {
		t.Errorf("a dialect that is none: %v", err)
	}
}

// Settings of Open MPI in the environment count as flags that stand below the command line.
func TestOpenMPISettingsInTheEnvironment(t *testing.T) {
	environ := []string{
		"OMPI_MCA_plm_rsh_agent=/etc/mpi/kubexec.sh", "OMPI_MCA_plm_rsh_args=-p 2222", "OMPI_MCA_btl_tcp_if_include=eth0", "PRTE_MCA_rmaps_default_mapping_policy=ppr:2:node", "OMPI_MCA_mca_base_env_list=A;B=1",
		"OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile", "OMPI_MCA_orte_set_default_slots=2", "OMPI_MCA_orte_keep_fqdn_hostnames=true",
		"OMPI_MCA_pml=ob1", "OMPI_MCA_plm_base_verbose=5", "OMPI_MCA_orte_timestamp_output=1", "OMPI_COMM_WORLD_RANK=1", "PATH=/bin",
	}
	flags, o := flagSet()
	mca, err := environmentSettings(environ, flags)
	if err != nil {
		t.Fatal(err)
	}
	if err := flags.Parse([]string{"--ssh-port=7"}); err != nil {
		t.Fatal(err)
	}
	if err := setDefaults(flags, lookupIn(map[string]string{"GORUN_PPN": "5"}), mca.args, fileOf(map[string]string{"network-interface": "eth9", "grace": "1"})); err != nil {
		t.Fatal(err)
	}
	if o.sshPort != 7 || o.ppn != 5 || o.network.String() != "eth0" || !slices.Equal(o.exports, []string{"A", "B=1"}) || o.hostfile != "" || o.grace.String() != "1s" || !o.timestamp ||
		o.rshAgent != "/etc/mpi/kubexec.sh" || !slices.Equal(o.rshArgs, []string{"-p 2222"}) {
		t.Errorf("%+v", *o)
	}
	if want := "ignored Open MPI settings: OMPI_MCA_plm_base_verbose=5"; mca.notice() != want {
		t.Errorf("notice %q, want %q", mca.notice(), want)
	}
	flags, _ = flagSet()
	mca, err = environmentSettings([]string{"OMPI_MCA_odls_base_sigkill_timeout=soon"}, flags)
	if err == nil {
		err = setDefaults(flags, lookupIn(nil), mca.args, settings{})
	}
	if !isUsage(err) || !strings.Contains(err.Error(), "soon") {
		t.Errorf("a value that makes no sense: %v", err)
	}
}

func TestSplitShell(t *testing.T) {
	for line, want := range map[string][]string{
		"":                    nil,
		"  ":                  nil,
		"a  b\tc":             {"a", "b", "c"},
		`a 'b c' "d e"f ''`:   {"a", "b c", "d ef", ""},
		`a\ b "c\"d" 'e\f' \`: {"a b", `c"d`, `e\f`, `\`},
		`-x A="$HOME *"`:      {"-x", "A=$HOME *"},
	} {
		if got, err := splitShell(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", line, got, err, want)
		}
	}
	for _, line := range []string{"'", `a "b`, `"\"`} {
		if got, err := splitShell(line); err == nil {
			t.Errorf("%q: %q", line, got)
		}
	}
}

func TestSrunTimes(t *testing.T) {
	for text, want := range map[string]string{
		"90": "1h30m0s", "1:30": "1m30s", "1:2:3": "1h2m3s", "2-0": "48h0m0s", "1-2:30": "26h30m0s", "1-0:0:5": "24h0m5s", "0": "",
	} {
		flags, _ := flagSet()
		got, err := translate([]string{"-t", text, "a"}, Slurm, flags, nil)
		if limit := strings.TrimPrefix(got.args[0], "--timeout="); err != nil || limit != want && (want != "" || got.args[0] != "--") {
			t.Errorf("%s: %q, %v", text, got.args, err)
		}
	}
	for _, text := range []string{"", "x", "-1", "1:2:3:4", "1-", "1-2:3:4:5", "99999999-0", ":"} {
		flags, _ := flagSet()
		if got, err := translate([]string{"-t", text, "a"}, Slurm, flags, nil); !isUsage(err) {
			t.Errorf("%q was read as %q", text, got.args)
		}
	}
}
