package survey

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
)

func TestInventory(t *testing.T) {
	device := gpu.Device{Name: "A\x1b[2J100", UUID: "GPU-1\n"}
	// list answers a request for GPUs, and says in a warning what was sent before it.
	list := func(devices ...gpu.Device) func(a *fake.Agent) error {
		return func(a *fake.Agent) error {
			sent := ""
			for {
				switch f, err := a.Frames.Next(); {
				case err != nil:
					return err
				case f.Type == wire.TypeProgram:
					sent += string(f.Payload)
				case f.Type == wire.TypeListGPUs:
					if err := a.Out.SendMessage(wire.TypeGPUs,
						gpu.Inventory{Devices: devices, Warnings: []string{"sent:" + sent}}); err != nil {
						return err
					}
					return a.UntilEOF()
				}
			}
		}
	}
	broken := errors.New("permission denied")
	for _, tc := range []struct {
		name  string
		lacks bool
		serve func(a *fake.Agent) error
		want  string
	}{
		{"down", false, nil, `- [] connection refused`},
		{"box", true, list(device), `A?[2J100 ["sent:program?"] <nil>`},
		{"installed", false, list(device), `A?[2J100 ["sent:"] <nil>`},
		{"plain", false, list(), `- ["sent:"] <nil>`},
		{"unreadable", true, list(device), `- [] permission denied`},
		{"silent", false, silent, `- [] no answer within 20s (--start-timeout)`},
		{"refusing", false,
			answering(wire.TypeListGPUs, wire.TypeRefuse, `{"Code":125,"What":"no\u001b driver"}`), `- [] no? driver`},
		{"ended", false, func(*fake.Agent) error {
			return fake.ExitStatus(137)
		}, `- [] the agent was killed or failed (exit code 137)`},
		{"nonsense", false, answering(wire.TypeListGPUs, wire.TypeGPUs, "[1]"),
			`- [] malformed frame: GPUs message: json: cannot unmarshal array into Go value of type gpu.Inventory`},
		{"eager", false, answering(wire.TypeListGPUs, wire.TypeReady, "{}"),
			`- [] malformed frame: ready came where GPUs was due`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &fake.Machine{Lacks: tc.lacks, Serve: tc.serve}
				reach := reachOf(t, m)
				reach.GPUProgram = func() ([]byte, error) {
					if tc.name == "unreadable" {
						return nil, broken
					}
					return []byte("program\x1b"), nil
				}
				for _, g := range Inventory(t.Context(), []hostfile.Host{{Name: tc.name}}, reach) {
					name := "-"
					for _, d := range g.Devices {
						name = d.Name
					}
					got := fmt.Sprintf("%s %q %v", name, g.Warnings, g.Err)
					check.That(t, got == tc.want && g.Host.Name == tc.name,
						"%s: %s\nwant %s", g.Host.Name, got, tc.want)
				}
				check.That(t, m.Disk.Puts == 0, "a file was uploaded")
			})
		})
	}
}
