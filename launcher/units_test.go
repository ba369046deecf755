package launcher

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/fake"
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
		serve func(a *fake.Agent) error
		want  string
	}{
		{"two sockets", answer(wire.TypeUnits, `{"socket":2,"core":8}`), "map[core:8 socket:2] <nil>"},
		{"down", nil, "map[] connection refused"},
		{"silent", func(a *fake.Agent) error { return a.UntilEOF() }, "map[] no answer within 20s (--start-timeout)"},
		{"refusing", answer(wire.TypeRefuse, `{"Code":125,"What":"no\u001b cores"}`), "map[] no? cores"},
		{"nonsense", answer(wire.TypeUnits, "[1]"),
			"map[] malformed frame: units message: json: cannot unmarshal array into Go value of type wire.Units"},
		{"eager", answer(wire.TypeReady, "{}"), "map[] malformed frame: ready came where units was due"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				exe := testExecutable()
				m := &fake.Machine{Serve: tc.serve,
					Disk: fake.NewDisk(map[string]string{exe.Path: "build " + exe.Build})}
				dial := func(context.Context, hostfile.Host) (Host, error) {
					if tc.serve == nil {
						return nil, errors.New("connection refused")
					}
					return m, nil
				}
				got := Count(t.Context(), []hostfile.Host{{Name: tc.name}},
					Options{Dial: dial, Exe: exe, StartTimeout: 20 * time.Second})
				if text := fmt.Sprint(got[0].Count, " ", got[0].Err); text != tc.want || got[0].Host.Name != tc.name {
					t.Errorf("%s\nwant %s", text, tc.want)
				}
			})
		})
	}
}
