package main

import (
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
		"":                                     {},
		"--cpus-per-rank=4":                    {To: "core", Each: 4},
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
