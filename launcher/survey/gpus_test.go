package survey

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
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

// A host with many GPUs, and with much to say of each, takes up no more of a table than the largest
// real host.
func TestInventoriesAreBounded(t *testing.T) {
	many := `{"devices":[{"mig":[` + repeated("{}") + `],"processes":[` + repeated("{}") +
		`],"nvlinks":{` + numbered() + `},"paths":{` + numbered() + `},"health":{"slowdowns":[` +
		repeated(`"temperature"`) + `]}},` + repeated("{}") + `]}`
	synctest.Test(t, func(t *testing.T) {
		m := &fake.Machine{Serve: answering(wire.TypeListGPUs, wire.TypeGPUs, many)}
		for _, g := range Inventory(t.Context(), []hostfile.Host{{Name: "f1"}}, reachOf(t, m)) {
			must.That(t, g.Err == nil && len(g.Devices) > 0, "%v, %d GPUs", g.Err, len(g.Devices))
			d := g.Devices[0]
			check.That(t, cap(g.Devices) <= 512, "%d GPUs", cap(g.Devices))
			check.That(t, cap(d.MIG) <= 128 && cap(d.Processes) <= 2048, "%d instances, %d processes", cap(d.MIG),
				cap(d.Processes))
			check.That(t, len(d.NVLinks) == 0 && len(d.Paths) == 0, "%d links, %d paths", len(d.NVLinks), len(d.Paths))
			check.That(t, cap(d.Health.Slowdowns) <= 32, "%d slowdowns", cap(d.Health.Slowdowns))
		}
	})
}

// repeated lists a value of JSON many times.
func repeated(value string) string { return strings.Repeat(value+",", 20000) + value }

// numbered is the inside of a JSON object with many numbers as keys.
func numbered() string {
	var pairs []string
	for i := range 20000 {
		pairs = append(pairs, fmt.Sprintf(`"%d":1`, i))
	}
	return strings.Join(pairs, ",")
}
