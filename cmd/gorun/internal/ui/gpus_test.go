package ui

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher/survey"
)

// someGPUs returns hosts with every value that the table shows.
func someGPUs() []survey.GPUs {
	on := func(name string, devices ...gpu.Device) survey.GPUs {
		return survey.GPUs{Host: hostfile.Host{Name: name}, Inventory: gpu.Inventory{Devices: devices}}
	}
	links := func(index int) gpu.Device {
		d := gpu.Device{
			Index:       index,
			UUID:        "GPU-8a1b2c3d-0000-1111-2222-333344445555",
			Name:        "NVIDIA A100-SXM4-40GB",
			BusID:       "0000:07:00.0",
			NUMANode:    1,
			CPUs:        "0-15",
			MemoryBytes: 40 << 30,
			Utilization: 97,
			NVLinks:     map[int]int{},
			Paths:       map[int]gpu.Path{},
		}
		for peer := range 5 {
			if peer != index {
				d.NVLinks[peer] = 4 + 8*(peer/4)
				d.Paths[peer] = gpu.System
			}
		}
		return d
	}
	first := links(0)
	second := links(1)
	first.MemoryUsed = 1 << 29
	second.MIGEnabled = true
	second.NVLinks = nil
	second.MIG = []gpu.MIG{{UUID: "MIG-1", Profile: "1g.5gb", MemoryBytes: 5 << 30},
		{UUID: "MIG-2", Profile: "3g.20gb"}, {UUID: "MIG-3", Profile: "1g.5gb"}}
	second.Processes = []gpu.Process{{PID: 4711, MemoryBytes: 3 << 30}, {PID: 4712}}
	bare := gpu.Device{
		Index:       2,
		Minor:       -1,
		BusID:       "0000:3b:00.0",
		NUMANode:    -1,
		Utilization: -1,
		MIGEnabled:  true,
	}
	failed := on("f3")
	failed.Err = errors.New("connection refused")
	return []survey.GPUs{on("f1", first, second, bare), on("f2"), failed}
}

func TestTableOfGPUs(t *testing.T) {
	const table = `host  gpu  name                   used     memory    busy  numa  mig                uuid      nvlinks
f1    0    NVIDIA A100-SXM4-40GB  0.5 GiB  40.0 GiB  97 %  1     -                  8a1b2c3d  12 to 4, 4 to 1-3
f1    1    NVIDIA A100-SXM4-40GB  0        40.0 GiB  97 %  1     2x1g.5gb+1x3g.20gb  8a1b2c3d  -
f1    2    -                      -        -         -     -     on                 -         -
f2    -    none
f3    -    failed
`
	const more = `
f1  0    1    2    bus           cpus
0   X    NV4  NV4  0000:07:00.0  0-15
1   SYS  X    SYS  0000:07:00.0  0-15
2   -    -    X    0000:3b:00.0  -
1: MIG 1g.5gb, 5.0 GiB, MIG-1
1: MIG 3g.20gb, -, MIG-2
1: MIG 1g.5gb, -, MIG-3
1: process 4711, 3.0 GiB
1: process 4712, -

`
	for verbose, want := range map[bool]string{false: table, true: table + more} {
		var out bytes.Buffer
		must.OK(t, WriteGPUs(&out, someGPUs(), verbose))
		if got := out.String(); squeeze(got) != squeeze(want+"3 hosts, 3 GPUs\n") {
			t.Errorf("verbose %v: got\n%swant\n%s", verbose, got, want)
		}
	}
}

// squeeze replaces runs of blanks by one.
func squeeze(text string) string {
	for strings.Contains(text, "  ") {
		text = strings.ReplaceAll(text, "  ", " ")
	}
	return text
}
