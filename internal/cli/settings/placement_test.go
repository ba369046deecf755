package settings

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/launcher"
)

func TestBindingPolicy(t *testing.T) {
	for text, want := range map[string]launcher.Binding{
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
		flags, o := NewFlags()
		if err := flags.Parse(strings.Fields(text)); err != nil || o.Check(false) != nil || o.Binding() != want {
			t.Errorf("%q is %+v, %v; want %+v", text, o.Binding(), err, want)
		}
	}
	for text, want := range map[string]string{
		"--bind-to=":              "expected none, hwthread, core, numa or socket",
		"--bind-to=:overload":     "expected none, hwthread, core, numa or socket",
		"--bind-to=l3cache":       "expected none, hwthread, core, numa or socket",
		"--bind-to=core:2":        "expected overload-allowed or if-supported after the colon",
		"--cpus-per-rank=0":       "expected a whole number",
		"--map-by=ppr:2:node":     "expected slot or node",
		"--gpus-per-rank=0":       "expected auto, none or a whole number from 1 to",
		"--gpus-per-rank=gpu":     "expected auto, none or a whole number from 1 to",
		"--rank-by=span":          "expected slot or node",
		"--bind-to=none:overload": "there is nothing to bind to",
	} {
		flags, o := NewFlags()
		err := flags.Parse([]string{text})
		if err == nil {
			err = o.Check(false)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
}
