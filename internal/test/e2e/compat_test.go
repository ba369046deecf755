package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/lab"
)

// standIns makes programs that print their name, their rank and their arguments.
func standIns(t *testing.T, names ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range names {
		script := "#!/bin/sh\necho \"" + name + " $RANK of $WORLD_SIZE: $*\"\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestPublishedCommandLinesRun runs published lines with gorun in place of their launcher, on hosts of the same names. Only the
// paths of files differ.
func TestPublishedCommandLinesRun(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(4)...)
	programs := standIns(t, "python", "python3.6", "singularity")
	files := t.TempDir()
	hosts, script := filepath.Join(files, "hostfile"), filepath.Join(files, "discoverHosts.sh")
	for name, text := range map[string]string{hosts: "f1 slots=2\nf2 slots=2\n", script: "#!/bin/sh\necho f1:2\necho f2:2\n"} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	here := strings.NewReplacer("/horovod/generated/hostfile", hosts, "/kubeflow/openmpi/assets/hostfile", hosts, "/horovod/generated/discoverHosts.sh", script)
	for _, tc := range []struct {
		np         int
		prefix     string
		says, ends string
		notice     string
	}{
		{4, "[1,%d]<stdout>:", "python %d of 4: /horovod/examples/", "pytorch_lightning_mnist.py", "gorun: 4 ranks on 2 hosts\n"},
		{4, "[1,%d]<stdout>:", "python %d of 4: /horovod/examples/", "--val-batch-size=128", "gorun: 4 ranks on 2 hosts\n"},
		{3, "[1,%d]<stdout>:", "python3.6 %d of 3: /examples/", "--use_fp16", "ignored Open MPI settings: pml=ob1 btl=^openib"},
		{32, "[1,%d]<stdout>:", "python3.6 %d of 32: /examples/", "--use_fp16", "ignored Open MPI settings: pml=ob1 btl=^openib"},
		{4, "", "singularity %d of 4: exec --nv horovod.sif python", "keras_mnist_advanced.py", "ignored Open MPI settings: btl=openib,self pml=ob1"},
		{8, "", "singularity %d of 8: exec --nv horovod.sif python", "keras_mnist_advanced.py", "ignored Open MPI settings: btl=openib,self pml=ob1"},
	} {
		lines := golden.CommandLines(t, root+"/cmd/gorun/testdata/published.txt")
		var argv []string
		for _, line := range lines {
			last := line[len(line)-1]
			if strings.Contains(last, tc.ends) && slices.Contains(line, fmt.Sprint(tc.np)) {
				argv = line
			}
		}
		if argv == nil {
			t.Fatalf("no published line of %d ranks ends with %q", tc.np, tc.ends)
		}
		var args []string
		for _, a := range argv[1:] {
			args = append(args, here.Replace(a))
		}
		r := startIn(t, c, []string{"PATH=" + programs + ":" + os.Getenv("PATH"), "LD_LIBRARY_PATH=/none"}, args...).want(0, tc.notice)
		said := r.lines()
		for rank := range tc.np {
			want := fmt.Sprintf(tc.says, rank)
			if tc.prefix != "" {
				want = fmt.Sprintf(tc.prefix, rank) + want
			}
			if n := len(slices.DeleteFunc(slices.Clone(said), func(l string) bool { return !strings.Contains(l, want) || !strings.HasSuffix(l, tc.ends) })); n != 1 {
				t.Errorf("%q: rank %d is in %d lines:\n%s", argv, rank, n, golden.Clip(r.out.String()))
			}
		}
		if len(said) != tc.np || strings.Count(r.err.String(), tc.notice) != 1 {
			t.Errorf("%q: %d lines, stderr:\n%s", argv, len(said), &r.err)
		}
	}
}

// gorun reads its words as the launcher does under whose name it starts.
func TestNamesAreDialects(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"mpirun", "mpiexec", "mpiexec.hydra", "horovodrun", "srun", "torchrun"} {
		if err := os.Symlink(binary("gorun"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	programs := standIns(t, "python", "version")
	path := []string{"PATH=" + programs + ":" + os.Getenv("PATH")}
	for _, tc := range []struct {
		argv string
		want []string
	}{
		{"mpirun -c 2 sh -c echo·$RANK", []string{"localhost:0: 0", "localhost:1: 1"}},
		{"mpiexec -N 2 sh -c echo·$LOCAL_SIZE$LOCAL_RANK", []string{"localhost:0: 0", "localhost:1: 1"}},
		{"mpirun -np 1 version", []string{"localhost:0: version 0 of 1: "}},
		{"mpiexec.hydra -n 2 -l -genv A 7 sh -c echo·$A", []string{"[0] 7", "[1] 7"}},
		{"horovodrun -np 1 -p 2222 --cycle-time-ms 3 sh -c echo·$HOROVOD_CYCLE_TIME", []string{"localhost:0: 3"}},
		{"srun -N1 -n2 -l --export=NONE sh -c echo·$SLURM_PROCID$E2E_X", []string{"0: ", "1: "}},
		{"torchrun --nproc_per_node=2 train.py --lr 1", []string{"localhost:0: python 0 of 2: -u train.py --lr 1", "localhost:1: python 1 of 2: -u train.py --lr 1"}},
		{"torchrun --nnodes=1:2 --nproc_per_node=2 --max-restarts=1 train.py", []string{"localhost:0: python 0 of 2: -u train.py", "localhost:1: python 1 of 2: -u train.py"}},
	} {
		var argv []string
		for w := range strings.FieldsSeq(tc.argv) {
			argv = append(argv, strings.ReplaceAll(w, "·", " "))
		}
		r := startPath(t, nil, filepath.Join(dir, argv[0]), append(path, "E2E_X=1", "SLURM_PROCID=5"), argv[1:]...).want(0)
		got := r.lines()
		slices.Sort(got)
		if !slices.Equal(got, tc.want) || r.err.Len() > 0 {
			t.Errorf("%s: %q, want %q; stderr %s", tc.argv, got, tc.want, &r.err)
		}
	}
}

func TestEnvironmentFlagsReachTheRanks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, []byte("# mine\nE2E_A=from the file = 1\nE2E_B\nE2E_C=file\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	env := []string{"E2E_B=b", "E2E_D=d", "E2E_E=e", "MY_TOKEN=canary", "PMIX_RANK=3", "HOROVOD_RANK=9"}
	const show = `echo "$E2E_A|$E2E_B|$E2E_C|$E2E_D|$E2E_E|$MY_TOKEN|$PMIX_RANK|$HOROVOD_RANK"`
	for _, tc := range []struct{ args, want string }{
		{"--env-file " + file + " -x E2E_C=flag", "from the file = 1|b|flag|d|e|canary||0"},
		{"--unset-env E2E_* -x E2E_E", "||||e|canary||0"},
		{"--no-env -x E2E_D", "|||d||||0"},
		{"--no-env --env-file " + file, "from the file = 1|b|file|||||0"},
		{"-genvnone -genvlist E2E_B,E2E_D -genv E2E_A 1", "1|b||d||||0"},
	} {
		r := startIn(t, nil, env, slices.Concat([]string{"--prefix", "none"}, strings.Fields(tc.args), []string{"sh", "-c", show})...).want(0)
		if r.out.String() != tc.want+"\n" {
			t.Errorf("%s: %q, want %q", tc.args, &r.out, tc.want)
		}
	}
}

func TestStderrCanBeMergedAndTheMapShown(t *testing.T) {
	r := start(t, nil, "-np", "2", "--merge-stderr-to-stdout", "--display-map", "sh", "-c", "echo out; echo err >&2").want(0, "2 ranks on 1 host\n", "ranks 0-1\n")
	got := r.lines()
	slices.Sort(got)
	if want := []string{"localhost:0: err", "localhost:0: out", "localhost:1: err", "localhost:1: out"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
