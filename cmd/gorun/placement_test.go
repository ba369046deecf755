package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/wire"
	"github.com/gorun/gorun/launcher"
)

func TestBindingPolicy(t *testing.T) {
	for text, want := range map[string]wire.Binding{
		"--bind-to=core":             {To: "core"},
		"--bind-to=NUMA":             {To: "numa"},
		"--bind-to=package:overload": {To: "socket", Overload: true},
		"--bind-to=hwthread:if-supported,overload-allowed": {To: "hwthread", Overload: true, IfSupported: true},
		"--bind-to=none":                       {},
		"":                                     {Near: true},
		"--gpus-per-rank=2":                    {Near: true},
		"--gpus-per-rank=none":                 {},
		"--cpus-per-rank=4":                    {To: "core", Each: 4, Near: true},
		"--cpus-per-rank=4 --bind-to=none":     {Each: 4},
		"--cpus-per-rank=4 --bind-to=hwthread": {To: "hwthread", Each: 4},
	} {
		flags, o := flagSet()
		if err := flags.Parse(strings.Fields(text)); err != nil || o.check(false) != nil || o.binding() != want {
			t.Errorf("%q is %+v, %v; want %+v", text, o.binding(), err, want)
		}
	}
	for text, want := range map[string]string{
		"--bind-to=":              "want none, hwthread, core, numa or socket",
		"--bind-to=:overload":     "want none, hwthread, core, numa or socket",
		"--bind-to=l3cache":       "want none, hwthread, core, numa or socket",
		"--bind-to=core:2":        "after a colon want overload-allowed or if-supported",
		"--cpus-per-rank=0":       "want a whole number",
		"--map-by=ppr:2:node":     "want slot or node",
		"--gpus-per-rank=0":       "want auto, none or a whole number from 1 to",
		"--gpus-per-rank=gpu":     "want auto, none or a whole number from 1 to",
		"--rank-by=span":          "want slot or node",
		"--bind-to=none:overload": "there is nothing to bind to",
	} {
		flags, o := flagSet()
		err := flags.Parse([]string{text})
		if err == nil {
			err = o.check(false)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
}

func TestDryRunText(t *testing.T) {
	for args, want := range map[string]string{
		"":                             "",
		"--map-by=node":                "mapping    by node, ranks numbered by node\n",
		"--map-by=node --rank-by=slot": "mapping    by node, ranks numbered by slot\n",
		"--bind-to=numa:if-supported":  "binding    to numa:if-supported\n",
		"--cpus-per-rank=2":            "binding    to core, cores per rank: 2\n",
		"--bind-to=none":               "binding    none\n",
		"--gpus-per-rank=2":            "gpus       2 per rank, dealt on the hosts\n",
		"--gpus-per-rank=auto":         "gpus       auto, dealt on the hosts\n",
		"--gpus-per-rank=none":         "gpus       left alone\n",
	} {
		flags, o := flagSet()
		if err := flags.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		opts := launcher.Options{Programs: []launcher.Program{{Argv: []string{"a"}, Wdir: "/w", Ranks: 1}}, Binding: o.binding(), Env: []string{"B=secret"}}
		d := newDryRun(o, launcher.Plan{}, opts, "-H", nil)
		if got := d.text(o); got != want+"program    [\"a\"]\ndirectory  /w\nvariables  B\n" {
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
		{hosts[:2], "auto", "auto, of 4 on f1, dealt on the hosts"},
		{hosts[:3], "2", "2 per rank, of 4 on f1, 4 on f2, dealt on the hosts"},
		{hosts, "2", "2 per rank, of 4 on f1, 4 on f2, 4 on f3, 4 on f4, on 2 more hosts, dealt on the hosts"},
		{hosts, "none", "left alone"},
	} {
		if got := (dryRun{Hosts: tt.hosts, GPUsPerRank: tt.perRank}).gpusText(false); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
