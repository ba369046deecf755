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
