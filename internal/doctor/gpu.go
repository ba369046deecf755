package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/prose"
)

const (
	oldErrors  = 10   // uncorrected errors in a GPU's lifetime that are more than usual
	capped     = 0.97 // share of the default power limit
	fullMemory = 0.5  // share of a GPU's memory whose use leaves too little for a job
)

// gpus judges the GPUs of all hosts, by themselves and among those of the same name.
func (j *judge) gpus() {
	alike := map[string]*model{}
	for _, name := range j.Names {
		own := map[string]*model{}
		for _, d := range j.Hosts[name].GPUs {
			if d.Health != nil {
				modelIn(own, d.Name).add(d.Health)
			}
		}
		for kind, m := range own {
			modelIn(alike, kind).vote(m)
		}
	}
	j.counts()
	for _, name := range j.Names {
		host := j.Hosts[name]
		if host.GPUProblem != "" {
			severity := Warning
			if strings.Contains(strings.ToLower(host.GPUProblem), "is lost") ||
				strings.Contains(host.GPUProblem, "fallen off") {
				severity = Bad
			}
			j.is(name, severity, "gpu", "ask the driver: nvidia-smi, dmesg | grep -i nvrm; a GPU that is lost needs "+
				"a reboot", "the health of its GPUs is unknown: %s", host.GPUProblem)
		}
		for _, d := range host.GPUs {
			if d.Health != nil {
				j.gpu(name, d, alike[d.Name])
			}
			j.used(name, d)
		}
		if host.Facts != nil {
			j.xids(name, host.Facts.Xids, host.GPUs)
		}
	}
}

// model counts the values of GPUs with one name: of those of a host, or for all hosts what the most
// of each have. A host with many GPUs counts no more than others: it may be sick, or lie.
type model struct {
	count                             int
	links, lanes, generations, clocks map[int]int
}

// modelIn returns the model of GPUs with a name, a new one if there is none.
func modelIn(models map[string]*model, name string) *model {
	if models[name] == nil {
		models[name] = &model{
			links:       map[int]int{},
			lanes:       map[int]int{},
			generations: map[int]int{},
			clocks:      map[int]int{},
		}
	}
	return models[name]
}

func (m *model) add(h *gpu.Health) {
	m.count++
	m.links[h.NVLinksUp]++
	m.lanes[h.PCIe.Width]++
	m.generations[h.MaxPCIe.Generation]++
	m.clocks[h.MaxClock]++
}

// vote counts what most GPUs of a host have.
func (m *model) vote(own *model) {
	m.count += own.count
	m.links[mostFrequent(own.links)]++
	m.lanes[mostFrequent(own.lanes)]++
	m.generations[mostFrequent(own.generations)]++
	m.clocks[mostFrequent(own.clocks)]++
}

// most returns the value that most have, or 0 if there are too few GPUs to tell.
func (m *model) most(values map[int]int) int {
	if m.count < 3 {
		return 0
	}
	return mostFrequent(values)
}

// mostFrequent returns the value that is counted most, of several the largest.
func mostFrequent(values map[int]int) int {
	return slices.MaxFunc(slices.Collect(maps.Keys(values)), func(a, b int) int {
		return cmp.Or(values[a]-values[b], a-b)
	})
}

func (j *judge) gpu(host string, d gpu.Device, m *model) {
	h := d.Health
	bad := func(fix, format string, args ...any) {
		j.is(host, Bad, "gpu", fix, fmt.Sprintf("GPU %d ", d.Index)+format, args...)
	}
	warn := func(fix, format string, args ...any) {
		j.is(host, Warning, "gpu", fix, fmt.Sprintf("GPU %d ", d.Index)+format, args...)
	}
	reset := fmt.Sprintf("end what uses it and reset it, or reboot: nvidia-smi -i %d --gpu-reset", d.Index)
	if h.RemapFailed {
		bad("have it replaced: nvidia-smi -q -d ROW_REMAPPER", "has no spare rows left for broken memory")
	}
	if h.Uncorrected > 0 {
		bad(reset+"; if it comes again, have it replaced",
			"had %s in its memory that ECC could not correct, since its driver was loaded",
			prose.Count(int(h.Uncorrected), "error"))
	} else if h.UncorrectedEver >= oldErrors {
		warn("watch it, and have it replaced if there are more: nvidia-smi -q -d ECC",
			"had %d errors in its life that ECC could not correct", h.UncorrectedEver)
	}
	if h.RemapPending {
		warn(reset, "waits for a reset to replace broken memory by spare rows")
	}
	for _, slow := range h.Slowdowns {
		switch at := fmt.Sprintf("runs at %d of %d MHz", h.Clock, h.MaxClock); slow {
		case gpu.SlowHardware, gpu.SlowHeatBrake, gpu.SlowPowerBrake:
			bad("look at its cooling and power supply: nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
				"%s: %s (%d °C)", at, slow, h.Temperature)
		case gpu.SlowHeat:
			warn("look at its cooling: nvidia-smi -q -d TEMPERATURE", "%s because it is hot (%d °C)", at, h.Temperature)
		case gpu.SlowSettings:
			if h.Clock > 0 && h.MaxClock > 0 && !h.Idle {
				warn(fmt.Sprintf("take the setting back: nvidia-smi -i %d -rgc; nvidia-smi -i %d -rac", d.Index,
					d.Index), "%s by its clock settings", at)
			}
		}
	}
	if h.PowerLimit > 0 && h.PowerLimit < capped*h.PowerDefault {
		warn(fmt.Sprintf("raise it: nvidia-smi -i %d -pl %.0f", d.Index, h.PowerDefault),
			"may take only %.0f W of %.0f W", h.PowerLimit, h.PowerDefault)
	}
	seat := "seat it anew, or try another slot: nvidia-smi -q -d PCIE, lspci -vv -s " + prose.Quoted(d.BusID)
	if usual := max(h.MaxPCIe.Width, m.most(m.lanes)); h.PCIe.Width > 0 && h.PCIe.Width < usual {
		bad(seat, "has %d of %d PCIe lanes", h.PCIe.Width, usual)
	}
	if usual := m.most(m.generations); h.MaxPCIe.Generation > 0 && h.MaxPCIe.Generation < usual {
		warn(seat, "has PCIe of generation %d, and the others of its kind %d", h.MaxPCIe.Generation, usual)
	} else if !h.Idle && h.PCIe.Generation > 0 && h.PCIe.Generation < h.MaxPCIe.Generation && d.Utilization > 0 {
		warn(seat, "is busy and uses PCIe of generation %d, of %d", h.PCIe.Generation, h.MaxPCIe.Generation)
	}
	if usual := m.most(m.clocks); h.MaxClock > 0 && h.MaxClock < usual {
		warn("look at its firmware and settings: nvidia-smi -q -d CLOCK",
			"reaches %d MHz, and the others of its kind %d MHz", h.MaxClock, usual)
	}
	links := "look at the NVLinks and the fabric manager: nvidia-smi nvlink -s, systemctl status nvidia-fabricmanager"
	if usual := m.most(m.links); h.NVLinksUp < usual {
		bad(links, "has %d NVLinks, and the others of its kind %d", h.NVLinksUp, usual)
	} else if usual == 0 && h.NVLinksUp > 0 && h.NVLinksDown > 0 {
		warn(links, "has %d NVLinks of %d", h.NVLinksUp, h.NVLinksUp+h.NVLinksDown)
	}
	if h.NVLinkRecoveries > 0 {
		warn("watch it: nvidia-smi nvlink -e", "had to set up an NVLink anew %s",
			prose.Count(int(h.NVLinkRecoveries), "time"))
	}
	if h.Persistence != nil && !*h.Persistence {
		warn("systemctl enable --now nvidia-persistenced, or nvidia-smi -pm 1",
			"has no persistence mode: each first program waits for its driver")
	}
}

// used judges the GPU's use by other programs.
func (j *judge) used(host string, d gpu.Device) {
	switch full := d.MemoryBytes > 0 && float64(d.MemoryUsed) > fullMemory*float64(d.MemoryBytes); {
	case len(d.Processes) > 0:
		severity := Warning
		if full {
			severity = Bad
		}
		var pids []string
		for _, p := range d.Processes {
			pids = append(pids, fmt.Sprint(p.PID))
		}
		slices.Sort(pids)
		pids = slices.Compact(pids)
		shown := pids[:min(len(pids), 3)]
		j.is(host, severity, "gpu in use", "look at them, and end what is left over: ps -fp "+strings.Join(shown, ","),
			"GPU %d is used by %s, with %s of %s of its memory",
			d.Index, prose.Count(len(pids), "process"), size(int64(d.MemoryUsed)), size(int64(d.MemoryBytes)))
	case full && !d.MIGEnabled:
		j.is(host, Bad, "gpu in use", fmt.Sprintf("look for a process in a container, and else reset it: fuser -v "+
			"/dev/nvidia%d", max(d.Minor, 0)),
			"%s of %s of the memory of GPU %d are used, and no process is seen to do it", size(int64(d.MemoryUsed)),
			size(int64(d.MemoryBytes)), d.Index)
	}
}

// counts finds hosts with other GPUs than most have.
func (j *judge) counts() {
	of := func(name string) (int, string) {
		all := j.Hosts[name].GPUs
		if len(all) == 0 {
			return 0, "none"
		}
		var names []string
		for _, d := range all {
			names = append(names, d.Name)
		}
		slices.Sort(names)
		return len(all), fmt.Sprintf("%d × %s", len(all), strings.Join(slices.Compact(names), " and "))
	}
	having := map[string][]string{}
	number := map[string]int{}
	for _, name := range j.Names {
		if h := j.Hosts[name]; h.Facts != nil && h.GPUProblem == "" {
			n, what := of(name)
			having[what] = append(having[what], name)
			number[what] = n
		}
	}
	if len(having) < 2 {
		return
	}
	most := slices.MaxFunc(slices.Sorted(maps.Keys(having)), func(a, b string) int {
		return cmp.Or(len(having[a])-len(having[b]), number[a]-number[b])
	})
	for what, names := range having {
		for _, name := range names {
			if what == most {
				break
			}
			severity := Warning
			fix := "leave it out if the job needs equal GPUs"
			if number[what] < number[most] {
				severity = Bad
				fix = "look whether one has fallen off the bus: nvidia-smi, dmesg | grep -i xid, lspci -d 10de:"
			}
			j.is(name, severity, "gpus", fix, "its GPUs are %s, and %s %s", what, others(having[most]), most)
		}
	}
}

// xids judges errors that the driver has written to the kernel's log. Those of programs, which most
// are, say nothing of the GPU.
func (j *judge) xids(host string, all []Xid, gpus []gpu.Device) {
	for _, x := range all {
		severity, meaning := meaningOf(x.Code)
		if severity == "" {
			continue
		}
		which := "the GPU at " + x.Bus
		for _, d := range gpus {
			if strings.HasPrefix(d.BusID, strings.TrimSuffix(x.Bus, ".0")) && x.Bus != "" {
				which = fmt.Sprintf("GPU %d", d.Index)
			}
		}
		j.is(host, severity, "xid", "end what uses it and reset it, or reboot; if it comes again, have it replaced: "+
			"dmesg | grep -i xid", "%s had Xid %d %s: %s",
			which, x.Code, prose.Count(x.Count, "time"), meaning)
	}
}

// meaningOf returns the severity and meaning of an error (Xid) from NVIDIA's list, or a severity of
// "" for errors that do not come from a faulty GPU.
func meaningOf(code int) (Severity, string) {
	switch code {
	case 48:
		return Bad, "an error in its memory that ECC could not correct"
	case 64:
		return Bad, "broken memory could not be replaced by spare rows"
	case 74:
		return Bad, "an NVLink failed"
	case 79:
		return Bad, "it has fallen off the bus"
	case 95:
		return Bad, "an error in its memory that reached other programs"
	case 110, 140, 143:
		return Bad, "an error of its hardware"
	case 119, 120:
		return Bad, "its firmware (GSP) does not answer"
	case 63:
		return Warning, "broken memory is replaced by spare rows"
	case 92:
		return Warning, "many errors in its memory that ECC corrected"
	case 94:
		return Warning, "an error in its memory that ended the program that used it"
	}
	return "", ""
}
