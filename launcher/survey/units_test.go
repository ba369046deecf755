package survey

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
)

func TestCountOfUnits(t *testing.T) {
	units := func(text string) func(a *fake.Agent) error { return answering(wire.TypeCount, wire.TypeUnits, text) }
	for _, tc := range []struct {
		name  string
		unit  string
		cores int
		serve func(a *fake.Agent) error
		want  string
	}{
		{"two sockets", wire.BindSocket, 0, units(`{"socket":2,"core":8}`), "2 <nil>"},
		{"no caches", wire.BindL3, 0, units(`{"socket":2,"core":8}`), "0 <nil>"},
		{"down", wire.BindCore, 0, nil, "0 connection refused"},
		{"silent", wire.BindCore, 0, silent, "0 no answer within 20s (--start-timeout)"},
		{"refusing", wire.BindCore, 0,
			answering(wire.TypeCount, wire.TypeRefuse, `{"Code":125,"What":"no\u001b cores"}`), "0 no? cores"},
		{"nonsense", wire.BindCore, 0, units("[1]"),
			"0 malformed frame: units message: json: cannot unmarshal array into Go value of type wire.Units"},
		{"eager", wire.BindCore, 0, answering(wire.TypeCount, wire.TypeReady, "{}"),
			"0 malformed frame: ready came where units was due"},
		{"cores", UnitCores, 16, silent, "16 <nil>"},
		{"unknown cores", UnitCores, 0, silent, "1 <nil>"},
		{"two GPUs", UnitGPUs, 0, answering(wire.TypeListGPUs, wire.TypeGPUs, `{"devices":[{},{}]}`), "2 <nil>"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reach := reachOf(t, &fake.Machine{Serve: tc.serve, Cores: tc.cores})
				got := Count(t.Context(), []hostfile.Host{{Name: tc.name}}, tc.unit, reach)
				text := fmt.Sprint(got[0].N, " ", got[0].Err)
				check.That(t, text == tc.want && got[0].Host.Name == tc.name, "%s\nwant %s", text, tc.want)
			})
		})
	}
}
