package dialect_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
)

func commands() []string { return []string{"help", "version", "completion"} }

// TestCommandLines translates testdata/lines.txt, and has the flag parser read the result.
func TestCommandLines(t *testing.T) {
	read := reader(t)
	golden.Cases(t, "testdata/lines.txt", func(typed string) (string, error) {
		line, _, err := read(typed)
		if err != nil {
			return "", err
		}
		return shown(line), nil
	})
}

// Of the command lines of public scripts at least 190 of 200 mean to gorun what they mean to their
// launchers.
func TestPublicCommandLines(t *testing.T) {
	read := reader(t)
	all := 0
	same := 0
	count := func(file string, mustWork bool) {
		golden.Cases(t, "testdata/"+file, func(typed string) (string, error) {
			all++
			line, o, err := read(typed)
			if err == nil && line.Blocks == nil {
				err = o.Check(strings.Contains(" "+strings.Join(line.Args, " "), " --np="))
			}
			without := strings.Contains(line.Notice(), "no effect yet") || strings.Contains(line.Notice(), "ignored")
			if works := err == nil && !without; works != mustWork {
				t.Errorf("%s of %s works: %v (%v)", typed, file, works, err)
			} else if works {
				same++
			}
			if err != nil {
				return "", err
			}
			if _, flags, _ := strings.Cut(typed, " "); file == "published.txt" {
				own, _, err := read("gorun " + flags)
				same := strings.ReplaceAll(shown(own), "--tag-output", "--prefix=mpirun")
				check.That(t, err == nil && same == shown(line), "%s under the name gorun is %s, %v", typed, same, err)
			}
			return shown(line), nil
		})
	}
	count("public.txt", true)
	count("published.txt", true)
	count("public-others.txt", false)
	check.That(t, all >= 200 && 200*same >= 190*all, "%d of %d lines mean the same, want 190 of 200", same, all)
}

// reader returns a function that translates a command line, and has the flag parser read the
// result. Words NAME=VALUE before the launcher's name are its environment, a word @TEXT is the name
// of a file of that text.
func reader(t *testing.T) func(typed string) (dialect.Line, *settings.Options, error) {
	file := filepath.Join(t.TempDir(), "FILE")
	t.Setenv("PATH", "/bin") // before which --prefix puts folders
	t.Setenv("LD_LIBRARY_PATH", "")
	return func(typed string) (line dialect.Line, o *settings.Options, err error) {
		argv, err := usage.SplitShell(typed)
		if err != nil {
			return line, nil, err
		}
		for i, word := range argv {
			if text, isFile := strings.CutPrefix(word, "@"); isFile {
				argv[i] = file
				if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, `\n`, "\n")), 0o600); err != nil {
					return line, nil, err
				}
			}
		}
		var variables []string
		for ; strings.Contains(argv[0], "="); argv = argv[1:] {
			variables = append(variables, argv[0])
		}
		launcher, _ := dialect.Named(argv[0])
		flags, o := settings.NewFlags()
		flags.Usage = func() {} // of --help
		line, err = dialect.Translate(argv[1:], variables, launcher, flags, commands())
		if err == nil {
			_, err = line.Defaults()
		}
		if err == nil {
			line, err = line.WithFile(flags)
		}
		if err != nil {
			check.That(t, usage.Is(err), "%s: %v is no usage error", typed, err)
			return line, nil, usage.Errorf(usage.Hint(err), "%s", strings.ReplaceAll(err.Error(), file, "FILE"))
		}
		if len(line.Args) > 0 && !slices.Contains(commands(), line.Args[0]) {
			err := flags.Parse(line.Args)
			check.That(t, err == nil || err == pflag.ErrHelp, "%s: %q: %v", typed, line.Args, err)
		}
		return line, o, nil
	}
}

// shown formats a translation; | separates programs and their flags.
func shown(line dialect.Line) string {
	text := quoted(line.Args)
	if line.Blocks != nil {
		text = quoted(line.Args[:slices.Index(line.Args, "--")])
		for _, b := range line.Blocks {
			text += " | " + quoted(slices.Concat(b.Args, []string{"--"}, b.Program))
		}
	}
	if defaults, _ := line.Defaults(); defaults != nil {
		text += "; variables:"
		for _, d := range defaults {
			text += " " + quoted([]string{d.Arg})
		}
	}
	if notice := line.Notice(); notice != "" {
		text += "; notice: " + notice
	}
	return strings.TrimSpace(text)
}

// quoted joins words, and quotes those with blanks.
func quoted(words []string) string {
	words = slices.Clone(words)
	for i, w := range words {
		if w == "" || strings.Contains(w, " ") {
			words[i] = "'" + w + "'"
		}
	}
	return strings.Join(words, " ")
}

// A command without a program accepts flags anywhere.
func TestCommandFlagsMayStandAnywhere(t *testing.T) {
	flags, _ := settings.NewFlags()
	got, err := dialect.TranslateWords([]string{"allreduce", "-np", "4", "-membind", "numa", "x", "-Ha:2", "--"}, nil,
		flags)
	check.That(t, err == nil && shown(got) == "allreduce --np=4 x --hosts=a:2 --; notice: no effect yet: -membind",
		"%s, %v", shown(got), err)
	check.Error(dialect.TranslateWords([]string{"-np"}, nil, flags)).Any(t, "a missing value is no error")
}

func TestChooseDialect(t *testing.T) {
	for program, want := range map[string]dialect.Dialect{ // after a blank GORUN_DIALECT
		"gorun": dialect.Own, "/usr/bin/gorun-1.2": dialect.Own, "/opt/bin/mpirun": dialect.OpenMPI,
		"mpiexec":       dialect.OpenMPI,
		"mpiexec.hydra": dialect.Hydra, "horovodrun": dialect.Horovod, "srun": dialect.Slurm, "torchrun": dialect.Torch,
		"gorun srun": dialect.Slurm, "mpirun gorun": dialect.Own, "mpirun hydra": dialect.Hydra,
	} {
		program, variable, _ := strings.Cut(program, " ")
		if got, err := dialect.Choose(program, func(string) (string, bool) {
			return variable, true
		}); err != nil || got != want {
			t.Errorf("%s, GORUN_DIALECT=%s: %v, %v", program, variable, got, err)
		}
	}
	if _, err := dialect.Choose("gorun", func(string) (string, bool) { return "mpich3", true }); usage.Hint(err) == "" {
		t.Errorf("an unknown dialect: %v", err)
	}
}

// row is a row of the table: the flags as typed, with each value 1, and their meaning.
type row struct {
	typed [][]string
	means string
}

// rowsOf reads the rows of a launcher independently of the package.
func rowsOf(launcher dialect.Dialect) (rows []row) {
	for _, r := range dialect.Rows(launcher) {
		names, values, _ := strings.Cut(strings.ReplaceAll(r.Flags, ", ", ","), " ")
		values, _, _ = strings.Cut(strings.NewReplacer("NAME=VALUE", "A=1", "VALUE", "1").Replace(values), "|")
		names, attached, hasAttached := strings.Cut(strings.TrimSuffix(names, "[=VALUE]"), "=")
		row := row{means: r.Means}
		for name := range strings.SplitSeq(names, ",") {
			if name[0] == '$' {
				continue // a variable that is no flag
			}
			if hasAttached {
				name += "=" + attached
			}
			row.typed = append(row.typed, append([]string{name}, strings.Fields(values)...))
		}
		rows = append(rows, row)
	}
	return rows
}

// Every flag of the table translates in its dialect to flags of gorun, a notice, or an error with a
// hint.
func TestEveryFlagOfEveryLauncher(t *testing.T) {
	isFlag := regexp.MustCompile(`^--[\w-]+( '.*'| \S+)?$`)
	for _, launcher := range dialect.Launchers() {
		flags, _ := settings.NewFlags()
		without := must.Get(dialect.Translate([]string{"--", "prog"}, nil, launcher.Dialect, flags, nil))(t)
		for _, row := range rowsOf(launcher.Dialect) {
			for _, argv := range row.typed {
				flags, _ := settings.NewFlags()
				got, err := dialect.Translate(append(argv, "prog"), nil, launcher.Dialect, flags, nil)
				kind, text, _ := strings.Cut(row.means, ": ")
				switch {
				case kind == "refused":
					check.That(t, err != nil && usage.Hint(err) == text,
						"%s %q: %v, hint %q, want %q", launcher.Name, argv, err, usage.Hint(err), text)
				case usage.Is(err) && !isFlag.MatchString(row.means): // 1 may be no value for a reader
				case err != nil:
					t.Errorf("%s %q: %v", launcher.Name, argv, err)
				case kind == "no effect yet" && !strings.Contains(got.Notice(), argv[0]):
					t.Errorf("%s %q: notice %q", launcher.Name, argv, got.Notice())
				case kind == "nothing to do" && (!slices.Equal(ourFlags(got), ourFlags(without)) || got.Notice() != ""):
					t.Errorf("%s %q: %q, notice %q", launcher.Name, argv, got.Args, got.Notice())
				case isFlag.MatchString(row.means) && row.means != "--version" && row.means != "--help":
					check.OK(t, flags.Parse(got.Args), launcher.Name, argv, got.Args)
				}
			}
		}
	}
}

func ourFlags(line dialect.Line) []string { return line.Args[:slices.Index(line.Args, "--")] }

// In gorun's own dialect some letters must be written out.
func TestAmbiguousFlags(t *testing.T) {
	var got []string
	flags, _ := settings.NewFlags()
	for _, launcher := range dialect.Launchers() {
		for _, row := range rowsOf(launcher.Dialect) {
			for _, argv := range row.typed {
				if _, err := dialect.Translate(append(argv, "prog"), nil, dialect.Own, flags, nil); err != nil &&
					strings.Contains(err.Error(), "mean different things") {
					got = append(got, argv[0])
				}
			}
		}
	}
	slices.Sort(got)
	want := []string{"-d", "-m", "-q", "-r", "-s", "-t"}
	check.Slice(t, slices.Compact(got), want, "they are")
}

// TestInventoryIsKnown checks that no launcher's option is missing, and that each takes the same
// number of values.
func TestInventoryIsKnown(t *testing.T) {
	for launcher, byArity := range inventory() {
		for want, names := range byArity {
			for name := range strings.FieldsSeq(names) {
				if values, known := launcher.Takes(name); !known || values != want {
					t.Errorf("%v: %s is known: %v; it takes %d values, want %d", launcher, name, known, values, want)
				}
			}
		}
	}
}

// inventory lists the options of the launchers' own parsers by number of values.
func inventory() map[dialect.Dialect]map[int]string {
	return map[dialect.Dialect]map[int]string{
		dialect.OpenMPI: {
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
		dialect.Hydra: {
			0: `genvall genvnone envall envnone prepend-rank l profile enable-x disable-x verbose v debug info version print-all-exitcodes
				disable-auto-cleanup dac enable-auto-cleanup pmi-port skip-launch-node rr print-rank-map`,
			1: `f hostfile machinefile machine machines machinelist host hosts hostlist ppn prepend-pattern outfile-pattern errfile-pattern outfile errfile wdir configfile
				envlist genvlist n np launcher launcher-exec bootstrap bootstrap-exec rmk topolib binding bind-to map-by membind demux iface nameserver order-nodes localhost usize
				gpus-per-proc g output-from perhost grr bootstrap-exec-args genvexcl`,
			-2: `env genv`,
		},
		dialect.Horovod: {
			0: `check-build cb disable-cache verbose version v hierarchical-allreduce no-hierarchical-allreduce hierarchical-allgather no-hierarchical-allgather torus-allreduce
				no-torus-allreduce autotune no-autotune timeline-mark-cycles no-timeline-mark-cycles stall-check no-stall-check mpi-threads-disable no-mpi-threads-disable tcp
				log-with-timestamp log-without-timestamp prefix-timestamp prefix-output-with-timestamp gloo mpi jsrun`,
			1: `np num-proc start-timeout network-interfaces network-interface output-filename config-file p ssh-port i ssh-identity-file fusion-threshold-mb cycle-time-ms
				cache-capacity autotune-log-file autotune-warmup-samples autotune-steps-per-sample autotune-bayes-opt-max-samples autotune-gaussian-process-noise min-np min-num-proc
				max-np max-num-proc slots-per-host elastic-timeout reset-limit timeline-filename stall-check-warning-time-seconds stall-check-shutdown-time-seconds mpi-args
				binding-args num-nccl-streams thread-affinity gloo-timeout-seconds log-level H hosts hostfile host-discovery-script`,
			2: `blacklist-cooldown-range`,
		},
		dialect.Slurm: {
			0: `label l overcommit O unbuffered u verbose v version V quiet Q overlap exact multi-prog test-only`,
			1: `ntasks n nodes N ntasks-per-node nodelist w nodefile F exclude x cpus-per-task c cpu-bind distribution m chdir D export time t input i output o error e
				partition p account A job-name J gres gpus G mem mpi signal wait W jobid gpus-per-task`,
			-1: `kill-on-bad-exit K exclusive pty bcast`,
		},
		dialect.Torch: {
			0: `standalone no-python module m run-path virtual-local-rank`,
			1: `nnodes nproc-per-node rdzv-backend rdzv-endpoint rdzv-id rdzv-conf max-restarts monitor-interval start-method role log-dir redirects r tee t node-rank
				master-addr master-port local-addr local-ranks-filter logs-specs event-log-handler log-line-prefix-template duplicate-stdout-filters duplicate-stderr-filters
				numa-binding signals-to-handle shutdown-timeout print-completion`,
		},
		dialect.DeepSpeed: {
			0: `module no-python no-local-rank no-ssh no-ssh-check force-multi save-pid elastic-training bind-cores-to-rank`,
			1: `H hostfile i include e exclude num-nodes min-elastic-nodes max-elastic-nodes num-gpus num-accelerators master-port master-addr node-rank launcher launcher-args
				enable-each-rank-log autotuning comment account bind-core-list ssh-port`,
		},
		dialect.Accelerate: {
			0: `quiet q cpu multi-gpu tpu enable-cpu-affinity dynamo-use-fullgraph dynamo-use-dynamic dynamo-use-regional-compilation use-deepspeed use-fsdp
				use-parallelism-config use-megatron-lm same-network module m no-python tpu-cluster no-tpu-cluster tpu-use-sudo downcast-bf16 debug`,
			1: `config-file mixed-precision num-processes num-machines num-cpu-threads-per-process dynamo-backend dynamo-mode gpu-ids machine-rank main-process-ip
				main-process-port t tee log-dir role rdzv-backend rdzv-conf max-restarts monitor-interval vm env main-training-function deepspeed-config-file zero-stage
				offload-optimizer-device offload-param-device offload-optimizer-nvme-path offload-param-nvme-path gradient-accumulation-steps gradient-clipping zero3-init-flag
				zero3-save-16bit-model deepspeed-hostfile deepspeed-exclusion-filter deepspeed-inclusion-filter deepspeed-multinode-launcher deepspeed-moe-layer-cls-names
				fsdp-version fsdp-offload-params fsdp-min-num-params fsdp-sharding-strategy fsdp-reshard-after-forward fsdp-auto-wrap-policy
				fsdp-transformer-layer-cls-to-wrap fsdp-backward-prefetch fsdp-state-dict-type fsdp-forward-prefetch fsdp-use-orig-params fsdp-cpu-ram-efficient-loading
				fsdp-sync-module-states fsdp-activation-checkpointing fsdp-activation-checkpointing-offload aws-access-key-id aws-secret-access-key mpirun-hostfile`,
		},
		dialect.Flux: {
			0: `u unbuffered l label-io dry-run quiet x exclusive v verbose`,
			1: `q queue t time-limit urgency job-name o setopt setattr add-file dependency requires begin-time env env-remove env-file rlimit input output error cwd flags signal
				taskmap N nodes n ntasks c cores-per-task g gpus-per-task cores tasks-per-node tasks-per-core gpus-per-node`,
		},
	}
}

// FuzzTranslate checks that no words in any dialect cause a panic, that errors are usage errors,
// and that a program's words stay unchanged.
// withoutExports leaves out the variables that accelerate gives to its scripts.
func withoutExports(args []string) []string {
	end := slices.Index(args, "--")
	if end < 0 {
		return args
	}
	kept := slices.DeleteFunc(slices.Clone(args[:end]), func(arg string) bool {
		return strings.HasPrefix(arg, "--export=ACCELERATE_")
	})
	return slices.Concat(kept, args[end:])
}

func FuzzTranslate(f *testing.F) {
	f.Add("-np\x004\x00-x\x00A", "prog\x00-np\x00--\x00", byte(0))
	f.Add("-vH\x00a\x00--", "-prog\x00-x", byte(1))
	f.Add("-=\x00--=\x00-\xff\x00-vé", "p", byte(2))
	f.Add("-mca\x00a\x00b\x00-genv\x00A=1\x00-genv\x00A\x001\x00-K0\x00--mpi-args\x00'--mca a b' -np 2", "a\x00:\x00b",
		byte(3))
	f.Add("--export\x00NONE\x00-t\x001-2:3\x00--dialect\x00srun\x00-m", "", byte(4))
	f.Add("-np\x001\x00a\x00:\x00-np\x002\x00--app\x00f", "a\x00\\:\x00b", byte(1))
	f.Add("--map-by=ppr:2:node:pe=1\x00--output\x00tag,dir=a\x00-prepend-pattern\x00%", "x", byte(5))
	f.Add("0", "pnp\x00", byte(43)) // accelerate
	f.Fuzz(func(t *testing.T, anything, theirs string, which byte) {
		flags, _ := settings.NewFlags()
		dialects := []dialect.Dialect{dialect.Own, dialect.OpenMPI, dialect.Hydra, dialect.Horovod, dialect.Slurm,
			dialect.Torch, dialect.DeepSpeed, dialect.Accelerate, dialect.Flux}
		launcher := dialects[int(which)%len(dialects)]
		words := strings.Split(anything, "\x00")
		program := strings.Split(theirs, "\x00")
		got, err := dialect.Translate(words, nil, launcher, flags, commands())
		checkTranslated(t, words, got, err)
		for _, ours := range [][]string{{"-np", "4", "--"}, {"-np", "4"}} {
			got, err := dialect.Translate(slices.Concat(ours, program), nil, launcher, flags, commands())
			isFlag := strings.HasPrefix(program[0], "-") && program[0] != "-"
			if len(ours) == 2 && (isFlag || hasColon(program) || launcher >= dialect.Torch && launcher < dialect.Own) {
				continue // a flag, several programs, a Python script, or the command of a launcher
			}
			must.That(t, err == nil && slices.Equal(withoutExports(got.Args),
				slices.Concat([]string{"--np=4", "--"}, program)), "%q, then %q: %q, %v", ours, program, got.Args, err)
			err = flags.Parse(got.Args)
			must.That(t, err == nil && slices.Equal(flags.Args(), program), "%q: %q, %v", program, flags.Args(), err)
		}
	})
}

// hasColon reports whether words hold a colon that separates programs, or an escaped one.
func hasColon(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return w == ":" || w == `\:` })
}

// checkTranslated checks invariants of all translations.
func checkTranslated(t *testing.T, words []string, got dialect.Line, err error) {
	t.Helper()
	var mistake *usage.Error
	if err != nil {
		must.That(t, errors.As(err, &mistake) && err.Error() != "", "%q: %v", words, err)
		return
	}
	if len(words) > 0 && slices.Contains(commands(), words[0]) || slices.Equal(got.Args, []string{"version"}) {
		return
	}
	end := slices.Index(append(slices.Clone(got.Args), "--"), "--")
	for _, arg := range got.Args[:end] {
		must.That(t, strings.HasPrefix(arg, "--"), "%q became %q", words, got.Args)
	}
	program := got.Args[min(end+1, len(got.Args)):]
	if len(program) > 1 && (program[0] == "python" || program[0] == "sh") && program[1] != "" || hasColon(words) {
		return // started as torchrun and deepspeed do, several programs, or an escaped colon
	}
	must.That(t, slices.Equal(program, words[len(words)-len(program):]), "%q became %q", words, got.Args)
}
