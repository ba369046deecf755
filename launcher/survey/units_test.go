package survey

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/launcher/session"
)

func TestCountOfUnits(t *testing.T) {
	answer := func(kind wire.Type, text string) func(a *fake.Agent) error {
		return func(a *fake.Agent) error {
			for {
				f, err := a.Frames.Next()
				if err != nil {
					return err
				}
				if f.Type == wire.TypeCount {
					_ = a.Out.Send(kind, 0, []byte(text))
					return a.UntilEOF()
				}
			}
		}
	}
	for _, tc := range []struct {
		name  string
		unit  string
		cores int
		serve func(a *fake.Agent) error
		want  string
	}{
		{"two sockets", wire.BindSocket, 0, answer(wire.TypeUnits, `{"socket":2,"core":8}`), "2 <nil>"},
		{"no caches", wire.BindL3, 0, answer(wire.TypeUnits, `{"socket":2,"core":8}`), "0 <nil>"},
		{"down", wire.BindCore, 0, nil, "0 connection refused"},
		{"silent", wire.BindCore, 0, func(a *fake.Agent) error { return a.UntilEOF() },
			"0 no answer within 20s (--start-timeout)"},
		{"refusing", wire.BindCore, 0, answer(wire.TypeRefuse, `{"Code":125,"What":"no\u001b cores"}`), "0 no? cores"},
		{"nonsense", wire.BindCore, 0, answer(wire.TypeUnits, "[1]"),
			"0 malformed frame: units message: json: cannot unmarshal array into Go value of type wire.Units"},
		{"eager", wire.BindCore, 0, answer(wire.TypeReady, "{}"), "0 malformed frame: ready came where units was due"},
		{"cores", UnitCores, 16, func(a *fake.Agent) error { return a.UntilEOF() }, "16 <nil>"},
		{"unknown cores", UnitCores, 0, func(a *fake.Agent) error { return a.UntilEOF() }, "1 <nil>"},
		{"two GPUs", UnitGPUs, 0, func(a *fake.Agent) error {
			if _, err := a.Expect(wire.TypeListGPUs); err != nil {
				return err
			}
			_ = a.Out.SendMessage(wire.TypeGPUs, gpu.Inventory{Devices: make([]gpu.Device, 2)})
			return a.UntilEOF()
		}, "2 <nil>"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				exe := executable()
				m := &fake.Machine{Serve: tc.serve, Cores: tc.cores,
					Disk: fake.NewDisk(map[string]string{exe.Path: "build " + exe.Build})}
				dial := func(context.Context, hostfile.Host) (session.Host, error) {
					if tc.serve == nil {
						return nil, errors.New("connection refused")
					}
					return m, nil
				}
				got := Count(t.Context(), []hostfile.Host{{Name: tc.name}}, tc.unit, Options{
					Dial:         dial,
					Exe:          exe,
					StartTimeout: 20 * time.Second,
					Trace:        t.Logf,
				})
				if text := fmt.Sprint(got[0].N, " ", got[0].Err); text != tc.want || got[0].Host.Name != tc.name {
					t.Errorf("%s\nwant %s", text, tc.want)
				}
			})
		})
	}
}
