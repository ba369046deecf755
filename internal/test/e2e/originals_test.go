package e2e

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// original is a launcher under whose name gorun starts.
type original struct {
	name  string   // of the link to gorun
	ranks string   // its flag for the number of ranks
	label []string // its flags for marks of lines; nil: lines always have them
	flags []string // of both launchers
	// own matches what the launcher itself says, which is not compared. gorun's own lines begin
	// with "gorun: ".
	own *regexp.Regexp
	// start returns how to start the launcher, or skips the test.
	start func(t *testing.T) (argv, env []string)
}

// originals are the launchers that the tests have.
func originals() []original {
	return []original{
		{
			name:  "mpirun",
			ranks: "-np",
			label: []string{"--tag-output"},
			flags: []string{"--oversubscribe"},
			own:   regexp.MustCompile(`(?s)-{70,}\n.*`),
			start: func(t *testing.T) (argv, env []string) {
				lab.Need(t, "mpirun.openmpi")
				env = []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}
				return []string{"mpirun.openmpi"}, env
			},
		},
		{
			name:  "mpiexec.hydra",
			ranks: "-n",
			label: []string{"-l"},
			own:   regexp.MustCompile(`(?s)\n=+\n=   BAD TERMINATION.*`),
			start: func(t *testing.T) (argv, env []string) {
				lab.Need(t, "mpiexec.hydra")
				return []string{"mpiexec.hydra"}, nil
			},
		},
		{
			name:  "srun",
			ranks: "-n",
			label: []string{"-l"},
			own:   regexp.MustCompile(`(?m)^srun: .*\n`),
			start: func(t *testing.T) (argv, env []string) {
				return []string{"srun"}, []string{"SLURM_CONF=" + lab.MustSlurm(t, 1).Conf}
			},
		},
		{
			name:  "torchrun",
			ranks: "--nproc_per_node",
			label: []string{"--tee", "3"},
			flags: []string{"--standalone", "--no_python"},
			own:   regexp.MustCompile(`(?m:^W\d{4} .*\n)|(?ms:^E\d{4} .*)`),
			start: func(t *testing.T) (argv, env []string) {
				// torchrun leaves its folder of logs behind.
				return []string{filepath.Join(lab.Torch(t), "torchrun")}, []string{"TMPDIR=" + t.TempDir()}
			},
		},
		{
			name:  "horovodrun",
			ranks: "-np",
			own: regexp.MustCompile(`(?m:^(Process \d+ exit with|Terminating remaining workers) .*\n)|` +
				`(?m:^\[\d\]<stderr>:(Killed|Terminated)\n)|` + // by the shell that starts a rank
				`(?ms:^(Exception in thread|Traceback) .*)`),
			start: func(t *testing.T) (argv, env []string) {
				const run = "from horovod.runner.launch import run_commandline; run_commandline()"
				return []string{lab.Python, "-c", run}, []string{lab.Horovod(t)}
			},
		},
	}
}

// shown is a program whose output and end gorun shows as the launchers do.
type shown struct {
	name, script string // $r is the rank
	input        string
	ranks        int  // 0: 1
	label        bool // with marks of lines
	except       []string
}

// programs that are started by all launchers. Those of several ranks print whole lines.
var shownPrograms = []shown{
	{name: "one line", script: "echo 42"},
	{name: "several lines", script: `printf 'a\n\n b\tc\n'`},
	{name: "no newline at the end", script: `printf 'a\nb'`},
	{name: "nothing", script: "true"},
	{name: "ten megabytes", script: `head -c 10000000 /dev/zero | tr '\0' x | fold -w 999`},
	{name: "a long line", script: `head -c 1000000 /dev/zero | tr '\0' x; echo; echo end`},
	// horovodrun reads UTF-8, and puts marks after carriage returns
	{name: "bytes", script: `printf 'a\000b\r\nc\rd\000\377\n\r'`, except: []string{"horovodrun"}},
	{name: "UTF-8", script: `printf 'h\303\251llo \344\270\226\347\225\214\n'`},
	{name: "a line in pieces", script: `printf a; sleep .3; printf 'b\nc'; sleep .3; echo d`},
	{name: "stderr", script: `echo no >&2; printf '\nend' >&2`},
	{name: "both streams", script: "echo out; echo err >&2"},
	{name: "input", script: "cat", input: "one\ntwo"},
	{name: "exit code 3", script: "echo out; echo err >&2; exit 3"},
	{name: "a missing program", script: "echo out; no-such-program 2>/dev/null"},
	// srun loses what comes just before; torchrun reads $$ as $
	{name: "SIGKILL", script: "echo out; sleep .3; sh -c 'kill -KILL $PPID'; sleep 9"},
	{name: "SIGTERM", script: "echo out; sleep .3; sh -c 'kill -TERM $PPID'; sleep 9"},

	{name: "marks", script: `printf 'a\n\nb\n'; echo err >&2`, label: true},
	{name: "marks, no newline at the end", script: `printf 'a\nb'`, label: true},
	{name: "marks, UTF-8", script: `printf 'h\303\251llo\n'`, label: true},
	{name: "marks, exit code 3", script: "echo out; exit 3", label: true},

	{name: "two ranks", script: "echo out $r; echo err $r >&2", ranks: 2},
	{name: "two ranks, marks", script: "echo out $r; echo err $r >&2", ranks: 2, label: true},
	// ranks of torchrun and horovodrun share what is in one descriptor, and mpiexec.hydra's rank 1
	// may wait for ever
	{name: "two ranks, input", script: "cat", input: "one\ntwo\n", ranks: 2, except: []string{"torchrun", "horovodrun",
		"mpiexec.hydra"}},
	{name: "two ranks, one code", script: "echo out; sleep .5; exit 3", ranks: 2},
	{name: "two ranks, one fails", script: "echo out; [ $r = 0 ] || sleep .5; exit $((r * 5))", ranks: 2},
	// mpirun gives its ranks a terminal
	{name: "no terminal", script: "for i in 0 1 2; do test -t $i && echo $i; done; echo end",
		except: []string{"mpirun"}},
	// the rank that goes on runs longer than a busy machine needs to end it
	{name: "two ranks, the other goes on or not", ranks: 2,
		script: `[ $r = 0 ] && exit 3; i=0; while [ $i -lt 200 ]; do sleep .1; i=$((i+1)); done; echo on; exit 2`},
	// Hydra fails itself if the signal comes while it starts
	{name: "two ranks, the other goes on after a signal or not", ranks: 2,
		script: `[ $r = 0 ] && sleep .5 && sh -c 'kill -KILL $PPID'; i=0; while [ $i -lt 200 ]; do sleep .1; ` +
			`i=$((i+1)); done; echo on`},
	{name: "two ranks, one is killed", ranks: 2,
		script: "echo out; [ $r = 0 ] && exit; sleep .5; sh -c 'kill -KILL $PPID'; sleep 9"},
}

// TestOutputAsOriginals compares gorun, started by other launchers' names, with these launchers:
// standard output, standard error and exit code, byte for byte with one rank, and as sets of lines
// with several. What launchers themselves say is not compared.
func TestOutputAsOriginals(t *testing.T) {
	if testing.Short() {
		t.Skip("starts every launcher")
	}
	links := t.TempDir()
	for _, o := range originals() {
		must.OK(t, os.Symlink(command.Binary("gorun"), filepath.Join(links, o.name)))
		t.Run(o.name, func(t *testing.T) {
			argv, env := o.start(t)
			for _, p := range shownPrograms {
				if slices.Contains(p.except, o.name) || p.label && o.label == nil {
					continue
				}
				t.Run(p.name, func(t *testing.T) {
					t.Parallel()
					want := p.run(t, o, argv, env)
					for range 5 { // MPICH's Hydra may fail at the end of its ranks, when the machine is busy
						if !strings.Contains(want.stderr, "HYDU_sock_write") {
							break
						}
						want = p.run(t, o, argv, env)
					}
					got := p.run(t, o, []string{filepath.Join(links, o.name)}, []string{"HOME=" + t.TempDir()})
					check.That(t, got == want, "gorun has\n%v\n%s has\n%v", got, o.name, want)
				})
			}
		})
	}
}

// outcome is what a user sees of a run.
type outcome struct {
	stdout, stderr string
	code           int
}

func (o outcome) String() string {
	return fmt.Sprintf("%s\n--- stderr\n%s\n--- exit code %d", golden.Clip(o.stdout), golden.Clip(o.stderr), o.code)
}

// run starts the program by a launcher.
func (p shown) run(t *testing.T, o original, argv, env []string) outcome {
	t.Helper()
	const rank = "r=${OMPI_COMM_WORLD_RANK-${PMI_RANK-${SLURM_PROCID-${HOROVOD_RANK-$RANK}}}}; "
	ranks := cmp.Or(p.ranks, 1)
	const limit = 5 * command.Limit // torchrun loads PyTorch in each of two dozen tests at a time
	argv = append(slices.Concat(argv, o.flags), o.ranks, strconv.Itoa(ranks))
	if p.label {
		argv = append(argv, o.label...)
	}
	r := command.New(t, nil, limit, command.NewMark(t), append(argv, "sh", "-c", rank+p.script)...)
	// Open MPI's mpirun removes the folders of another one that has just begun to make them.
	own := must.Get(os.MkdirTemp("", "run"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(own) })
	r.Cmd.Env = append(slices.Concat(r.Cmd.Env, env), "TMPDIR="+own)
	r.Cmd.Stdin = strings.NewReader(p.input)
	must.OK(t, r.Start())
	code := r.Wait()
	return outcome{o.compared(r.Out.String(), ranks), o.compared(r.Err.String(), ranks), code}
}

// compared returns the text of the ranks in an output, in a fixed order.
func (o original) compared(text string, ranks int) string {
	text = o.own.ReplaceAllString(text, "")
	text = regexp.MustCompile(`(?m)^gorun: .*\n`).ReplaceAllString(text, "")
	if ranks == 1 {
		return text
	}
	return strings.Join(slices.Sorted(strings.Lines(text)), "")
}
