package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/lab"
)

// showGPUs makes a host's /proc list GPUs of the NVIDIA driver.
func showGPUs(t *testing.T, c *lab.Cluster, host string, gpus int) {
	t.Helper()
	if err := c.Disk(t.Context(), host, "/proc/driver", 1024); err != nil {
		t.Fatal(err)
	}
	for i := range gpus {
		dir := fmt.Sprintf("/proc/driver/nvidia/gpus/0000:%02x:00.0", i+1)
		text := fmt.Sprintf("Model: NVIDIA L4\nGPU UUID: GPU-%d\nDevice Minor: %d\n", i, i)
		if out, err := c.On(t.Context(), host, "sh", "-c", `mkdir -p "$1" && printf "$2" > "$1/information"`, "sh", dir, text).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

// TestGPUsAreAssigned runs jobs on a host whose /proc shows two GPUs, and on one without any.
func TestGPUsAreAssigned(t *testing.T) {
	if _, err := os.Stat("/dev/nvidiactl"); err == nil {
		lab.Skip(t, "the lab's hosts would have this machine's GPUs")
	}
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	showGPUs(t, c, "f1", 2)
	hosts := t.TempDir() + "/hosts"
	if err := os.WriteFile(hosts, []byte("f1 slots=1 gpus=4\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	seen := []string{"--prefix", "none", "sh", "-c", "echo $RANK ${CUDA_VISIBLE_DEVICES-all} ${CUDA_DEVICE_ORDER-any}"}
	for _, tt := range []struct {
		args string
		want string // what the ranks see
		said string // all that gorun says
	}{
		{"-H f1:2,f2:1", "0 all any|1 all any|2 all any", ""},
		{"-H f1:3,f2:2", "0 0 PCI_BUS_ID|1 1 PCI_BUS_ID|2 0 PCI_BUS_ID|3 all any|4 all any", "gorun: f1: ranks 0 and 2 share GPU 0; for ranks that use none: --gpus-per-rank none\n"},
		{"-H f1:3 --gpus-per-rank none", "0 all any|1 all any|2 all any", ""},
		{"-H f1:2 --gpus-per-rank 1", "0 0 PCI_BUS_ID|1 1 PCI_BUS_ID", ""},
		{"-H f1:1 --gpus-per-rank 2", "0 0,1 PCI_BUS_ID", ""},
		{"-H f1:2 --gpus-per-rank 1 -x CUDA_VISIBLE_DEVICES=1,0", "0 1 any|1 0 any", ""},
		{"-H f1:2 -x CUDA_VISIBLE_DEVICES=GPU-1", "0 GPU-1 any|1 GPU-1 any", "gorun: f1: ranks 0 and 1 share GPU 1; for ranks that use none: --gpus-per-rank none\n"},
		{"-H f1:2 -x CUDA_VISIBLE_DEVICES=", "0 any|1 any", ""},
	} {
		r := start(t, c, append(strings.Fields(tt.args), seen...)...).want(0)
		got := r.lines()
		slices.Sort(got)
		for i, line := range got {
			got[i] = strings.Join(strings.Fields(line), " ")
		}
		if strings.Join(got, "|") != tt.want || r.err.String() != tt.said {
			t.Errorf("%s: ranks see %q, want %q; gorun says %q, want %q", tt.args, got, tt.want, r.err.String(), tt.said)
		}
	}
	started := t.TempDir() + "/started"
	for _, tt := range []struct{ args, what, hint string }{
		{"-H f1:1,f2:1 --gpus-per-rank 1", "gorun: error: f2: GPUs cannot be assigned: 1 rank needs 1 GPU, and there is none", "leave --gpus-per-rank out"},
		{"-H f1:2 --gpus-per-rank 2", "gorun: error: f1: GPUs cannot be assigned: 2 ranks, 2 GPUs each, need 4 GPUs, and there are 2", "(-H host:1), or say --gpus-per-rank 1"},
		{"--hostfile " + hosts, "gorun: error: f1: GPUs cannot be assigned: the hostfile says gpus=4, and there are 2", "correct gpus="},
	} {
		start(t, c, append(strings.Fields(tt.args), "touch", started)...).want(125, tt.what, "gorun: hint: ", tt.hint)
	}
	if _, err := os.Stat(started); err == nil {
		t.Error("a rank was started though GPUs could not be dealt")
	}
	start(t, c, "--hostfile", hosts, "--gpus-per-rank", "8", "--dry-run", "true").want(2, "f1: 1 rank with --gpus-per-rank 8, and the hostfile says gpus=4")
	// An elastic job assigns GPUs by slot.
	r := start(t, c, append(strings.Fields("-np 2 -H f1:2 --min-np 2 --gpus-per-rank 1"), seen...)...).want(0)
	if got := r.lines(); len(got) != 2 || !slices.Contains(got, "0 0 PCI_BUS_ID") || !slices.Contains(got, "1 1 PCI_BUS_ID") {
		t.Errorf("ranks of an elastic job see %q", got)
	}
	start(t, c, "-np", "3", "-H", "f1:3", "--min-np", "3", "true").want(0, "share GPU 0; for ranks that use none: --gpus-per-rank none\n")
	start(t, c, "-H", "f1:1,f2:1", "-v", "true").want(0, "there are 2 GPUs, which all ranks see on f1\n")
	start(t, c, "-H", "f1:2", "--gpus-per-rank", "1", "-v", "true").want(0, "there are 2 GPUs, of which local rank 0 has 0, 1 has 1 on f1\n")
}

// TestSentProgramKnowsNVLinks runs jobs on hosts with GPUs but without gorun-gpu. gorun sends its own copy to hosts that assign
// GPUs by number, and the NVLinks that it reports decide the assignment.
func TestSentProgramKnowsNVLinks(t *testing.T) {
	if _, err := os.Stat("/dev/nvidiactl"); err == nil {
		lab.Skip(t, "the lab's hosts would have this machine's GPUs")
	}
	c := lab.MustNamespacesAs(t, 65534, lab.Specs(2)...)
	showGPUs(t, c, "f1", 4)
	program := func(text string) {
		t.Helper()
		if out, err := c.Command(t.Context(), "sh", "-c", `mkdir -p ~/bin && printf %s "$0" >~/bin/gorun-gpu`, text).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	program(`#!/bin/sh
echo ran >>$HOME/ran
echo '{"devices": [{"index": 0, "bus_id": "0000:01:00.0", "nvlinks": {"2": 4}}, {"index": 1, "bus_id": "0000:02:00.0", "nvlinks": {"3": 4}},
{"index": 2, "bus_id": "0000:03:00.0", "nvlinks": {"0": 4}}, {"index": 3, "bus_id": "0000:04:00.0", "nvlinks": {"1": 4}}]}'
`)
	seen := []string{"--prefix", "none", "sh", "-c", "echo $RANK ${CUDA_VISIBLE_DEVICES-all}"}
	ran := func(host string) int {
		text, _ := os.ReadFile(c.Host(host).Home + "/ran")
		return strings.Count(string(text), "ran")
	}
	check := func(args, want string, runs int) {
		t.Helper()
		before := ran("f1")
		r := startStaged(t, c, append(strings.Fields(args), seen...)...).want(0)
		got := r.lines()
		slices.Sort(got)
		if strings.Join(got, "|") != want {
			t.Errorf("%s: ranks see %q, want %q: %s", args, got, want, &r.err)
		}
		if n := ran("f1") - before; n != runs || ran("f2") > 0 {
			t.Errorf("%s: gorun-gpu ran %d times on f1, want %d, and %d times on f2", args, n, runs, ran("f2"))
		}
		if sent := strings.Count(r.err.String(), "f1: sent gorun-gpu"); strings.Contains(args, "-v") && sent != 1 || strings.Contains(r.err.String(), "f2: sent gorun-gpu") {
			t.Errorf("%s: gorun says %s", args, &r.err)
		}
	}
	check("-v -H f1:2 --gpus-per-rank 2", "0 0,2|1 1,3", 1)
	check("-H f1:2,f2:1", "0 all|1 all|2 all", 0)
	check("-np 2 -H f1:2 --min-np 2 --gpus-per-rank 2", "0 0,2|1 1,3", 2) // an elastic job: an agent for each process
	keepGorunOnly(t, c, "f1", "f2")
	program("#!/bin/sh\nkill -SEGV $$\n")
	check("-H f1:2 --gpus-per-rank 2", "0 0,1|1 2,3", 0)
}
