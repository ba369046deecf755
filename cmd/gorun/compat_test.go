package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/internal/test/environ"
	"github.com/gorun/gorun/internal/test/golden"
)

// TestMistakes runs wrong command lines and compares the messages with
// testdata/mistakes.txt.
func TestMistakes(t *testing.T) {
	environ.Quiet(t)
	golden.Transcript(t, "testdata/mistakes.txt", 20, func(argv []string) string {
		var out, complaint bytes.Buffer
		code := runCLI(argv, nil, &out, &complaint, nil)
		if code != 2 || out.Len() > 0 || strings.Count(complaint.String(), "gorun: error: ") != 1 {
			t.Errorf("%q: code %d, stdout %q, stderr %q", argv, code, &out, &complaint)
		}
		return complaint.String()
	})
}

// seen is the request of a command line.
func seen(t *testing.T, argv ...string) (o settings.Options, flags *pflag.FlagSet, program []string,
	line dialect.Line) {
	t.Helper()
	call := quietCall(argv...)
	chosen, err := call.parse()
	if err != nil {
		t.Fatalf("%q: %v", argv, err)
	}
	return chosen.(*runCommand).o, call.flags, call.args, call.line
}

// quietCall is a call of gorun whose output nobody sees.
func quietCall(argv ...string) *invocation {
	return newInvocation(argv, nil, io.Discard, io.Discard, nil)
}

func mustDialect(t *testing.T, program string) dialect.Dialect {
	t.Helper()
	chosen, err := dialect.Choose(program, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return chosen
}

// TestPublishedCommandLines translates published lines under their launcher's name and gorun's:
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
	benchmark := "sh -c NCCL_MIN_NRINGS=8 NCCL_DEBUG=INFO python3.6 " +
		"/examples/official-benchmarks/scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py --num_batches=100 --model " +
		"vgg16 --batch_size 64 --variable_update horovod --horovod_device gpu --use_fp16"
	const ethernet = "OMPI_MCA_pml=ob1 OMPI_MCA_btl=^openib"
	const infiniband = " OMPI_MCA_btl=openib,self OMPI_MCA_pml=ob1"
	const elastic = "bash -c python /horovod/examples/elastic/pytorch/pytorch_imagenet_resnet50_elastic.py " +
		"--train-dir=/tmp/tiny-imagenet-200/train --val-dir=/tmp/tiny-imagenet-200/val --batch-size=128 " +
		"--val-batch-size=128"
	want := []job{
		{np: 4, file: "/horovod/generated/hostfile", prefix: "mpirun",
			program: "bash -c python /horovod/examples/pytorch/pytorch_lightning_mnist.py", notice: ""},
		{np: 4, script: "/horovod/generated/discoverHosts.sh", prefix: "mpirun", program: elastic, notice: ""},
		{np: 3, file: "/kubeflow/openmpi/assets/hostfile", prefix: "mpirun", netif: "^lo,docker0", exports: ethernet,
			program: benchmark},
		{np: 32, file: "/kubeflow/openmpi/assets/hostfile", prefix: "mpirun", netif: "^lo,docker0", exports: ethernet,
			program: benchmark},
		{np: 4, hosts: "f1:2,f2:2", prefix: "host", exports: exports + infiniband,
			program: "singularity exec --nv horovod.sif python /examples/keras_mnist_advanced.py"},
		{np: 8, hosts: "f1:2,f2:2,f3:2,f4:2", prefix: "host", exports: exports + infiniband,
			program: "singularity exec --nv horovod.sif python /examples/keras_mnist_advanced.py"},
	}
	lines := golden.CommandLines(t, "testdata/published.txt")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d", len(lines), len(want))
	}
	for i, argv := range lines {
		for _, name := range []string{argv[0], "gorun"} {
			o, flags, program, line := seen(t, append([]string{name}, argv[1:]...)...)
			prefix := o.Prefix
			if o.TagOutput {
				prefix = "mpirun"
			}
			got := job{o.NP, o.Hosts, o.Hostfile, o.Elastic.Discovery, prefix, o.Network.String(),
				strings.Join(o.Exports, " "), strings.Join(program, " "), line.Notice()}
			if got != want[i] {
				t.Errorf("%q as %s:\n got %+v\nwant %+v", argv, name, got, want[i])
			}
			if err := o.Check(flags.Changed("np")); err != nil {
				t.Errorf("%q: %v", argv, err)
			}
			if wantMap := i < 4; o.DisplayMap != wantMap {
				t.Errorf("%q: display-map is %v", argv, o.DisplayMap)
			}
		}
	}
}

func TestHelp(t *testing.T) {
	environ.Quiet(t)
	said := func(argv ...string) string {
		var out, complaint bytes.Buffer
		if code := runCLI(append([]string{"gorun"}, argv...), nil, &out, &complaint, nil); code != 0 ||
			complaint.Len() > 0 {
			t.Errorf("%q: code %d, %s", argv, code, &complaint)
		}
		return out.String()
	}
	all := said("help", "compat")
	for _, words := range []string{"--np, -n, -c VALUE", "-genv, -env NAME=VALUE", "--fusion-threshold-mb VALUE",
		"--ntasks-per-node VALUE", "--nproc-per-node VALUE", "plm_rsh_agent"} {
		if !strings.Contains(all, words) {
			t.Errorf("help compat lacks %q", words)
		}
	}
	if one := said("compat", "srun"); !strings.Contains(one, "--ntasks-per-node VALUE") ||
		strings.Contains(one, "--fusion-threshold-mb") {
		t.Errorf("compat srun:\n%s", golden.Clip(one))
	}
	var o settings.Options
	help := said("--help")
	for _, g := range o.Groups() {
		if !strings.Contains(help, "\n"+g.Title+":\n") {
			t.Errorf("--help lacks the group %q", g.Title)
		}
		for _, f := range g.Flags {
			if strings.Count(help, "--"+f.Name+" ")+strings.Count(help, "--"+f.Name+"[") == 0 {
				t.Errorf("--help lacks --%s", f.Name)
			}
		}
	}
	if strings.Contains(help, "\nFlags:\n") {
		t.Errorf("flags without a group:\n%s", help)
	}
}

// The help of every command fits the screen, and has no default that says nothing.
func TestHelpOfCommands(t *testing.T) {
	environ.Quiet(t)
	for _, name := range append(visible(quietCall("gorun").root), "") {
		if name == "compat" || name == "completion" {
			continue // a table, and cobra's own text
		}
		argv := []string{"gorun", name, "--help"}
		if name == "" {
			argv = []string{"gorun", "--help"}
		}
		var out bytes.Buffer
		if code := runCLI(argv, nil, &out, io.Discard, nil); code != 0 {
			t.Errorf("%q: code %d", argv, code)
		}
		for line := range strings.Lines(out.String()) {
			if len(line)-1 > helpWidth && !strings.Contains(line, "  gorun ") {
				t.Errorf("%q: %d columns: %s", argv, len(line)-1, line)
			}
		}
		for _, nothing := range []string{"(default 0", "(default false", "(default [", "(default \"\"", "(default )"} {
			if strings.Contains(out.String(), nothing) {
				t.Errorf("%q has %s...", argv, nothing)
			}
		}
	}
	help := map[string]string{}
	for _, name := range []string{"hosts", "cp", "doctor", "bench"} {
		var out bytes.Buffer
		runCLI([]string{"gorun", name, "--help"}, nil, &out, io.Discard, nil)
		help[name] = out.String()
	}
	for flag, want := range map[string]string{"hostfile": "hosts cp doctor bench",
		"network-interface": "cp doctor bench", "export": "doctor bench", "timeout": "bench", "stdin": ""} {
		var listed []string
		for _, name := range []string{"hosts", "cp", "doctor", "bench"} {
			if strings.Contains(help[name], "--"+flag+" ") {
				listed = append(listed, name)
			}
		}
		if got := strings.Join(listed, " "); got != want {
			t.Errorf("--%s is listed by %q, want %q", flag, got, want)
		}
	}
}
