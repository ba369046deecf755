package job

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/cli/settings"
	"github.com/gorun/gorun/launcher"
)

func TestDryRunText(t *testing.T) {
	for args, want := range map[string]string{
		"":                             "",
		"--map-by=node":                "mapping    by node, ranks numbered by node\n",
		"--map-by=node --rank-by=slot": "mapping    by node, ranks numbered by slot\n",
		"--bind-to=numa:if-supported":  "binding    to numa:if-supported\n",
		"--cpus-per-rank=2":            "binding    to core, cores per rank: 2\n",
		"--bind-to=none":               "binding    none\n",
		"--gpus-per-rank=2":            "gpus       2 per rank, assigned on the hosts\n",
		"--gpus-per-rank=auto":         "gpus       auto, assigned on the hosts\n",
		"--gpus-per-rank=none":         "gpus       left alone\n",
	} {
		flags, o := settings.NewFlags()
		if err := flags.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		opts := launcher.Options{Programs: []launcher.Program{{Argv: []string{"a"}, Wdir: "/w", Ranks: 1}}, Binding: o.Binding(), Env: []string{"B=secret"}}
		d := NewDryRun(o, launcher.Plan{}, opts, "-H", nil)
		if got := d.Text(o); got != want+"program    [\"a\"]\ndirectory  /w\nvariables  B\n" {
			t.Errorf("%s: %q", args, got)
		}
	}
}

func TestDryRunGPUs(t *testing.T) {
	hosts := []dryHost{{Host: "f0"}}
	for i := range 6 {
		hosts = append(hosts, dryHost{Host: fmt.Sprintf("f%d", i+1), GPUs: 4})
	}
	for _, tt := range []struct {
		hosts   []dryHost
		perRank string
		want    string
	}{
		{hosts[:1], "auto", ""},
		{hosts[:2], "auto", "auto, of 4 on f1, assigned on the hosts"},
		{hosts[:3], "2", "2 per rank, of 4 on f1, 4 on f2, assigned on the hosts"},
		{hosts, "2", "2 per rank, of 4 on f1, 4 on f2, 4 on f3, 4 on f4, on 2 more hosts, assigned on the hosts"},
		{hosts, "none", "left alone"},
	} {
		if got := (DryRun{Hosts: tt.hosts, GPUsPerRank: tt.perRank}).GpusText(false); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
