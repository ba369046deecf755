package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/test/lab"
)

// TestGPUsOfHosts lists a host with two GPUs, one with none and one that is down. gorun-gpu and nvidia-smi leave a mark where they run.
func TestGPUsOfHosts(t *testing.T) {
	smi := t.TempDir()
	if err := os.Chmod(smi, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(smi, "nvidia-smi"), []byte("#!/bin/sh\ntouch $HOME/ran-smi\nexit 9\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for dir := smi; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		_ = os.Chmod(dir, 0o755) // another user looks there
	}
	env := []string{"PATH=" + smi + ":/usr/bin:/bin"}
	c := lab.MustNamespacesAs(t, 65534, lab.Spec{Env: env}, lab.Spec{Env: env}, lab.Spec{})
	if err := c.Disk(t.Context(), "f1", "/proc/driver", 256); err != nil {
		t.Fatal(err)
	}
	shell(t, c, "f1", `for n in 0 1; do d=/proc/driver/nvidia/gpus/0000:0$((n+7)):00.0; mkdir -p $d; `+
		`printf 'Model: NVIDIA A100\nGPU UUID: GPU-????????-????\nDevice Minor: %d\n' $n >$d/information; done`)
	program := func(script string) {
		t.Helper()
		install := c.Command(t.Context(), "sh", "-c", `mkdir -p ~/bin && printf %s "$0" >~/bin/gorun-gpu`, "#!/bin/sh\ntouch $HOME/ran-gpu\n"+script)
		if out, err := install.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	program(`echo '{"devices": [{"index": 0, "bus_id": "0000:07:00.0", "uuid": "GPU-12345678-0", "memory_bytes": 1073741824, "nvlinks": {"1": 12}},
{"index": 1, "bus_id": "0000:08:00.0", "uuid": "GPU-87654321-0", "memory_bytes": 1073741824, "nvlinks": {"0": 12}}]}'`)

	r := startStaged(t, c, "gpus", "-H", "f1,f2").want(0)
	want := "host gpu name used memory busy numa mig uuid nvlinks\n" +
		"f1 0 NVIDIA A100 0 1.0 GiB - - - 12345678 12 to 1\nf1 1 NVIDIA A100 0 1.0 GiB - - - 87654321 12 to 0\nf2 - none\n2 hosts, 2 GPUs\n"
	if got := regexp.MustCompile(" +").ReplaceAllString(r.out.String(), " "); got != want || r.err.Len() > 0 {
		t.Errorf("got\n%s%s\nwant\n%s", got, &r.err, want)
	}
	ran := func(host, name string) bool {
		_, err := os.Stat(filepath.Join(c.Host(host).Home, name))
		return err == nil
	}
	if !ran("f1", "ran-gpu") || ran("f1", "ran-smi") || ran("f2", "ran-gpu") || ran("f2", "ran-smi") {
		t.Errorf("f1 ran gorun-gpu %v, nvidia-smi %v; f2 %v, %v", ran("f1", "ran-gpu"), ran("f1", "ran-smi"), ran("f2", "ran-gpu"), ran("f2", "ran-smi"))
	}
	keepGorunOnly(t, c, "f1", "f2")

	program("kill -SEGV $$")
	spoilHostKey(t, c, "f3")
	r = startStaged(t, c, "gpus", "--json", "-H", "f1,f2,f3").want(1, "warning: f1: list GPUs with gorun-gpu: signal: segmentation fault",
		"warning: f1: list GPUs with nvidia-smi: exit status 9", "error: f3 (", "host key")
	var all struct {
		Hosts []struct {
			Host, Error string
			GPUs        []gpu.Device
			Warnings    []string
		}
	}
	if err := json.Unmarshal(r.out.Bytes(), &all); err != nil || len(all.Hosts) != 3 {
		t.Fatalf("%v: %s", err, &r.out)
	}
	for i, gpus := range []int{2, 0, 0} {
		if h := all.Hosts[i]; len(h.GPUs) != gpus || (len(h.Warnings) > 0) != (i == 0) || (h.Error != "") != (i == 2) {
			t.Errorf("%+v", h)
		}
	}
	if !ran("f1", "ran-smi") || ran("f2", "ran-smi") {
		t.Error("nvidia-smi was to run on f1 alone")
	}
}

// shell runs a script on a host.
func shell(t *testing.T, c *lab.Cluster, host, script string) {
	t.Helper()
	if out, err := c.On(t.Context(), host, "sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", host, err, out)
	}
}

func TestGPUsCommandOfThisMachine(t *testing.T) {
	start(t, nil, "gpus").want(0)
	start(t, nil, "gpus", "f1").want(2, "gorun gpus takes no program", "gorun gpus -H f1")
}

// keepGorunOnly checks that the caches of hosts hold nothing but gorun.
func keepGorunOnly(t *testing.T, c *lab.Cluster, hosts ...string) {
	t.Helper()
	for _, host := range hosts {
		left, _ := filepath.Glob(filepath.Join(c.Host(host).Home, ".cache/gorun/*/*"))
		for _, name := range left {
			if base := filepath.Base(name); base != "gorun" && base != "checked" {
				t.Errorf("%s keeps %s", host, name)
			}
		}
	}
}
