package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/cli/dialect"
	"github.com/gorun/gorun/internal/cli/usage"
)

var updateGolden = flag.Bool("update", false, "rewrite the texts in testdata and docs; commit them only when the change is understood")

// golden compares text with a file, or rewrites it.
func golden(t *testing.T, name, text string) {
	t.Helper()
	if *updateGolden {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil || string(want) != text {
		t.Errorf("%s is not up to date (go test -run %s -update ./cmd/gorun): %v\ngot:\n%s", name, t.Name(), err, clip(text))
	}
}

// quiet hides what this machine's own settings would change.
func quiet(t *testing.T) {
	t.Helper()
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		for _, prefix := range []string{"OMPI_", "PRTE_", "SLURM_", "PBS_", "LSB_", "HYDRA_", "I_MPI_"} {
			if strings.HasPrefix(name, prefix) {
				t.Setenv(name, "") // to have it put back
				os.Unsetenv(name)
			}
		}
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("GORUN_DIALECT", "")
}

// TestMistakes types wrong command lines, and holds every word of the answers against
// testdata/mistakes.txt: what is wrong, where, and what to type.
func TestMistakes(t *testing.T) {
	quiet(t)
	transcript(t, "testdata/mistakes.txt", 20, func(argv []string) string {
		var out, complaint bytes.Buffer
		code := runCLI(argv, nil, &out, &complaint)
		if code != 2 || out.Len() > 0 || strings.Count(complaint.String(), "gorun: error: ") != 1 {
			t.Errorf("%q: code %d, stdout %q, stderr %q", argv, code, &out, &complaint)
		}
		return complaint.String()
	})
}

// transcript types every command line of a file, at least so many, and holds the answers against those that
// stand there.
func transcript(t *testing.T, name string, least int, answer func(argv []string) string) {
	t.Helper()
	old, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	lines := 0
	for line := range strings.Lines(string(old)) {
		typed, found := strings.CutPrefix(line, "$ ")
		if !found {
			continue
		}
		lines++
		argv, err := usage.SplitShell(typed)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s%s\n", line, answer(argv))
	}
	if lines < least {
		t.Errorf("%d command lines", lines)
	}
	golden(t, name, b.String())
}

// seen is what a command line asks for.
func seen(t *testing.T, argv ...string) (o runOptions, flags *pflag.FlagSet, program []string, line dialect.Line) {
	t.Helper()
	root := newRoot(func(f *pflag.FlagSet, _ *runOptions, p []string) error {
		flags, program = f, p
		return nil
	})
	root.SetOut(io.Discard)
	line, err := dialect.Translate(argv[1:], mustDialect(t, argv[0]), root.Flags(), commandNames(root))
	if err != nil {
		t.Fatalf("%q: %v", argv, err)
	}
	root.SetArgs(line.Args)
	if err := root.Execute(); err != nil {
		t.Fatalf("%q: %v", argv, err)
	}
	parsed, mine := flagSet()
	if err := parsed.Parse(line.Args); err != nil {
		t.Fatal(err)
	}
	return *mine, flags, program, line
}

func mustDialect(t *testing.T, program string) dialect.Dialect {
	t.Helper()
	chosen, err := dialect.Choose(program, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return chosen
}

// publishedLines are command lines as they stand in other projects' guides.
func publishedLines(t *testing.T) (lines [][]string) {
	t.Helper()
	text, err := os.ReadFile("testdata/published.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		argv, err := usage.SplitShell(line)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, argv)
	}
	return lines
}

// TestPublishedCommandLines reads published lines, with their launcher's name and with gorun's:
// both mean the same job.
func TestPublishedCommandLines(t *testing.T) {
	type job struct {
		np                                 int
		hosts, file, script, prefix, netif string
		exports                            string
		program                            string
		notice                             string
	}
	exports := "LD_LIBRARY_PATH PATH HOROVOD_MPI_THREADS_DISABLE=1 NCCL_SOCKET_IFNAME=^virbr0,lo"
	benchmark := "sh -c NCCL_MIN_NRINGS=8 NCCL_DEBUG=INFO python3.6 /examples/official-benchmarks/scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py --num_batches=100 --model vgg16 --batch_size 64 --variable_update horovod --horovod_device gpu --use_fp16"
	const ethernet, infiniband = "ignored Open MPI settings: pml=ob1 btl=^openib", "ignored Open MPI settings: btl=openib,self pml=ob1"
	const elastic = "bash -c python /horovod/examples/elastic/pytorch/pytorch_imagenet_resnet50_elastic.py --train-dir=/tmp/tiny-imagenet-200/train --val-dir=/tmp/tiny-imagenet-200/val --batch-size=128 --val-batch-size=128"
	want := []job{
		{np: 4, file: "/horovod/generated/hostfile", prefix: "mpirun", program: "bash -c python /horovod/examples/pytorch/pytorch_lightning_mnist.py", notice: ""},
		{np: 4, script: "/horovod/generated/discoverHosts.sh", prefix: "mpirun", program: elastic, notice: ""},
		{np: 3, file: "/kubeflow/openmpi/assets/hostfile", prefix: "mpirun", netif: "^lo,docker0", program: benchmark, notice: ethernet},
		{np: 32, file: "/kubeflow/openmpi/assets/hostfile", prefix: "mpirun", netif: "^lo,docker0", program: benchmark, notice: ethernet},
		{np: 4, hosts: "f1:2,f2:2", prefix: "host", exports: exports, program: "singularity exec --nv horovod.sif python /examples/keras_mnist_advanced.py", notice: infiniband},
		{np: 8, hosts: "f1:2,f2:2,f3:2,f4:2", prefix: "host", exports: exports, program: "singularity exec --nv horovod.sif python /examples/keras_mnist_advanced.py", notice: infiniband},
	}
	lines := publishedLines(t)
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d", len(lines), len(want))
	}
	for i, argv := range lines {
		for _, name := range []string{argv[0], "gorun"} {
			o, flags, program, line := seen(t, append([]string{name}, argv[1:]...)...)
			prefix := o.prefix
			if o.tagOutput {
				prefix = "mpirun"
			}
			got := job{o.np, o.hosts, o.hostfile, o.elastic.discovery, prefix, o.network.String(), strings.Join(o.exports, " "), strings.Join(program, " "), line.Notice()}
			if got != want[i] {
				t.Errorf("%q as %s:\n got %+v\nwant %+v", argv, name, got, want[i])
			}
			if err := o.check(flags.Changed("np")); err != nil {
				t.Errorf("%q: %v", argv, err)
			}
			if wantMap := i < 4; o.displayMap != wantMap {
				t.Errorf("%q: display-map is %v", argv, o.displayMap)
			}
		}
	}
}

// docs/migrating.md has the table as `gorun help compat` does.
func TestMigrationGuideHasTheTable(t *testing.T) {
	name := filepath.Join("..", "..", "docs", "migrating.md")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- the tables: go test -run TestMigrationGuide -update ./cmd/gorun -->\n", "<!-- end of the tables -->\n"
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatal("the marks around the tables are gone")
	}
	golden(t, name, before+begin+compatMarkdown()+end+after)
}

// compatMarkdown is the table for the guide.
func compatMarkdown() string {
	var b strings.Builder
	section := func(title string, rows [][2]string) {
		fmt.Fprintf(&b, "\n### %s\n\n| you type | gorun |\n|---|---|\n", title)
		for _, row := range rows {
			fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(row[0], "|", `\|`), strings.ReplaceAll(row[1], "|", `\|`))
		}
	}
	for _, n := range dialect.Launchers() {
		section(n.Title, dialect.Rows(n.Dialect))
		if n.Dialect == dialect.OpenMPI {
			section("Settings of Open MPI: -mca NAME VALUE, OMPI_MCA_NAME, PRTE_MCA_NAME", dialect.SettingRows())
		}
	}
	b.WriteString("\n")
	return b.String()
}

func TestHelp(t *testing.T) {
	quiet(t)
	said := func(argv ...string) string {
		var out, complaint bytes.Buffer
		if code := runCLI(append([]string{"gorun"}, argv...), nil, &out, &complaint); code != 0 || complaint.Len() > 0 {
			t.Errorf("%q: code %d, %s", argv, code, &complaint)
		}
		return out.String()
	}
	all := said("help", "compat")
	for _, words := range []string{"--np, -n, -c VALUE", "-genv, -env NAME=VALUE", "--fusion-threshold-mb VALUE", "--ntasks-per-node VALUE", "--nproc-per-node VALUE", "plm_rsh_agent"} {
		if !strings.Contains(all, words) {
			t.Errorf("help compat lacks %q", words)
		}
	}
	if one := said("compat", "srun"); !strings.Contains(one, "--ntasks-per-node VALUE") || strings.Contains(one, "--fusion-threshold-mb") {
		t.Errorf("compat srun:\n%s", clip(one))
	}
	help := said("--help")
	for _, g := range flagGroups() {
		if !strings.Contains(help, "\n"+g.title+":\n") {
			t.Errorf("--help lacks the group %q", g.title)
		}
	}
	if strings.Contains(help, "\nMore:\n") {
		t.Errorf("flags without a group:\n%s", help[strings.Index(help, "\nMore:\n"):])
	}
	flags := newRoot(nil).Flags()
	in := map[string]int{}
	for _, g := range flagGroups() {
		for _, name := range g.names {
			in[name]++
			if name != "help" && flags.Lookup(name) == nil {
				t.Errorf("group %q: there is no flag %s", g.title, name)
			}
		}
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if in[f.Name] != 1 {
			t.Errorf("--%s is in %d groups, want 1: see flagGroups", f.Name, in[f.Name])
		}
	})
}
