package dialect

import (
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/cli/usage"
)

func TestTableIsWhole(t *testing.T) {
	flags := flagSet(t)
	for _, w := range readTable().rows {
		switch {
		case len(w.names) == 0 || w.of == 0 || w.to == "" || w.does == refuse && !strings.HasPrefix(w.right, "refused: "):
			t.Errorf("%+v lacks something", w)
		case w.does == means && w.to != "help" && w.to != "version" && flags.Lookup(w.to) == nil:
			t.Errorf("%s: there is no flag %s", w.left, w.to)
		case w.does == means && strings.Contains(w.value, "VALUE") != (w.args != 0) && w.is == nil && w.args == 1 && w.to != "no-oversubscribe":
			t.Errorf("%s takes %d values, and %q uses them otherwise", w.left, w.args, w.right)
		case w.does == reads && new(translator).reader(w.to) == nil:
			t.Errorf("%s: there is no reader %q", w.left, w.to)
		}
	}
}

// Of a launcher's rows of a word, the last accepts all values, and all take the same number.
func TestTableIsTotal(t *testing.T) {
	table := readTable()
	for _, byName := range []map[string][]*word{table.flags, table.settings} {
		for name, all := range byName {
			for _, launcher := range []Dialect{OpenMPI, Hydra, Horovod, Slurm, Torch, Own, mca} {
				of := rowsOf(all, launcher)
				for i, w := range of {
					if w.args != of[0].args || (w.is == nil) != (i == len(of)-1) {
						t.Errorf("%s of %v: row %d of %d is %+v", name, launcher, i, len(of), w)
					}
				}
			}
		}
	}
}

// inventory lists the options of the launchers' own parsers by number of values.
func inventory() map[Dialect]map[int]string {
	return map[Dialect]map[int]string{
		OpenMPI: {
			0: `allow-run-as-root bind-to-core bind-to-socket bycore bynode byslot continuous crdebug d debug-devel debug debug-daemons debug-daemons-file
				disable-recovery display-allocation display-devel-allocation display-devel-map display-diffable-map display-map display-topo do-not-launch do-not-resolve dvm
				enable-instant-on-support enable-recovery fwd-mpirun-port get-stack-traces index-argv-by-rank leave-session-attached merge-stderr-to-stdout nolocal nooversubscribe
				noprefix novm output-proctable oversubscribe pernode q quiet report-bindings report-child-jobs-separately report-state-on-timeout s preload-binary
				set-cwd-to-session-dir show-progress tag-output timestamp-output tv use-hwthread-cpus use-regexp v verbose V version xml
				hetero-nodes no-app-prefix display-comm display-comm-finalize stop-on-exec stop-in-init stop-in-app daemonize`,
			1: `am app bind-to c n np cf cartofile cpu-list cpu-set cpus-per-proc cpus-per-rank debugger default-hostfile H host hnp hostfile launch-agent machinefile map-by
				max-restarts max-vm-size N npernode npersocket ompi-server output-filename path personality ppr prefix preload-files rank-by report-events report-pid report-uri
				rf rankfile sstore-load stdin timeout tune wd wdir x xml-file xterm output display runtime-options set-env unset-env forward-signals pset launcher-hostfile
				spawn-timeout stream-buffering with-ft initial-errhandler memory-alloc-kinds gpu-support app-pmix-prefix pmix-prefix tmpdir`,
			2: `mca gmca prtemca pmixmca omca gomca prepend-env append-env`,
		},
		Hydra: {
			0: `genvall genvnone envall envnone prepend-rank l profile enable-x disable-x verbose v debug info version print-all-exitcodes
				disable-auto-cleanup dac enable-auto-cleanup pmi-port skip-launch-node rr print-rank-map`,
			1: `f hostfile machinefile machine machines machinelist host hosts hostlist ppn prepend-pattern outfile-pattern errfile-pattern outfile errfile wdir configfile
				envlist genvlist n np launcher launcher-exec bootstrap bootstrap-exec rmk topolib binding bind-to map-by membind demux iface nameserver order-nodes localhost usize
				gpus-per-proc g output-from perhost grr bootstrap-exec-args genvexcl`,
			pair: `env genv`,
		},
		Horovod: {
			0: `check-build cb disable-cache verbose version v hierarchical-allreduce no-hierarchical-allreduce hierarchical-allgather no-hierarchical-allgather torus-allreduce
				no-torus-allreduce autotune no-autotune timeline-mark-cycles no-timeline-mark-cycles stall-check no-stall-check mpi-threads-disable no-mpi-threads-disable tcp
				log-with-timestamp log-without-timestamp prefix-timestamp prefix-output-with-timestamp gloo mpi jsrun`,
			1: `np num-proc start-timeout network-interfaces network-interface output-filename config-file p ssh-port i ssh-identity-file fusion-threshold-mb cycle-time-ms
				cache-capacity autotune-log-file autotune-warmup-samples autotune-steps-per-sample autotune-bayes-opt-max-samples autotune-gaussian-process-noise min-np min-num-proc
				max-np max-num-proc slots-per-host elastic-timeout reset-limit timeline-filename stall-check-warning-time-seconds stall-check-shutdown-time-seconds mpi-args
				binding-args num-nccl-streams thread-affinity gloo-timeout-seconds log-level H hosts hostfile host-discovery-script`,
			2: `blacklist-cooldown-range`,
		},
		Slurm: {
			0: `label l overcommit O unbuffered u verbose v version V quiet Q overlap exact multi-prog test-only`,
			1: `ntasks n nodes N ntasks-per-node nodelist w nodefile F exclude x cpus-per-task c cpu-bind distribution m chdir D export time t input i output o error e
				partition p account A job-name J gres gpus G mem mpi signal wait W jobid gpus-per-task`,
			attached: `kill-on-bad-exit K exclusive pty bcast`,
		},
		Torch: {
			0: `standalone no-python module m run-path`,
			1: `nnodes nproc-per-node rdzv-backend rdzv-endpoint rdzv-id rdzv-conf max-restarts monitor-interval start-method role log-dir redirects r tee t node-rank
				master-addr master-port local-addr local-ranks-filter logs-specs`,
		},
	}
}

// TestInventoryIsKnown checks that no launcher's option is missing, and that
// each takes the same number of values.
func TestInventoryIsKnown(t *testing.T) {
	for launcher, byArity := range inventory() {
		for args, names := range byArity {
			for name := range strings.FieldsSeq(names) {
				flags := flagSet(t)
				tr := newTranslator(launcher, flags, readTable())
				if !tr.known(name) {
					t.Errorf("%v: %s is not known", launcher, name)
					continue
				}
				m, err := tr.meaning(name, "--"+name)
				if err != nil || m.args != args {
					t.Errorf("%v: %s takes %d values, want %d; %v", launcher, name, m.args, args, err)
				}
			}
		}
	}
}

// Every word of the table translates in its dialect to flags of gorun,
// a notice, or an error with a hint.
func TestEveryWordOfEveryLauncher(t *testing.T) {
	for _, n := range Launchers() {
		for _, w := range rowsOf(readTable().rows, n.Dialect) {
			for _, name := range w.names {
				dashes := "--"
				if len(name) == 1 {
					dashes = "-"
				}
				argv := []string{dashes + name}
				switch {
				case w.is != nil && w.args == attached:
					argv[0] += "=" + w.is[0]
				case w.is != nil:
					argv = append(argv, w.is[0])
				case w.args == pair:
					argv = append(argv, "A", "1")
				default:
					argv = append(argv, slices.Repeat([]string{"1"}, max(w.args, 0))...)
				}
				flags := flagSet(t)
				got, err := Translate(append(argv, "prog"), n.Dialect, flags, nil)
				switch {
				case w.does == refuse:
					if err == nil || usage.Hint(err) != w.to {
						t.Errorf("%v %q: %v, hint %q, want %q", n.Dialect, argv, err, usage.Hint(err), w.to)
					}
				case w.does == reads && (err != nil && usage.Is(err)):
				case err != nil:
					t.Errorf("%v %q: %v", n.Dialect, argv, err)
				case w.does == pending && !strings.Contains(got.Notice(), argv[0]):
					t.Errorf("%v %q: notice %q", n.Dialect, argv, got.Notice())
				case w.does == same && (len(got.Args) > 4 || got.Notice() != ""):
					t.Errorf("%v %q: %q, notice %q", n.Dialect, argv, got.Args, got.Notice())
				case w.does == means && w.to != "version" && w.to != "help":
					if err := flags.Parse(got.Args); err != nil {
						t.Errorf("%v %q: %q: %v", n.Dialect, argv, got.Args, err)
					}
				}
			}
		}
	}
}

// In gorun's own dialect some letters must be written out.
func TestWordsThatOnlyADialectDecides(t *testing.T) {
	var got []string
	table := readTable()
	for name := range table.flags {
		if _, err := newTranslator(Own, flagSet(t), table).meaning(name, name); err != nil {
			got = append(got, name)
		}
	}
	slices.Sort(got)
	if want := []string{"d", "m", "q", "r", "s", "t"}; !slices.Equal(got, want) {
		t.Errorf("they are %q, want %q", got, want)
	}
}
