//go:build cgo

package nvml

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gorun/gorun/gpu"
)

// numaNodes is as many as Linux may have.
const numaNodes = 1024

// List returns the GPUs that the driver lets this process use, in the order of their indices, with all that
// it tells of them. It blocks as long as the driver does, and must not run twice at once.
func List() ([]gpu.Device, error) {
	return list(nvml.New())
}

// list reads the inventory from lib. Until Init has succeeded no other call may
// be made: the library's symbols are not there yet, and a missing one ends the
// process. The calls made here and in describe exist in every driver since 2013; others go through a driver's has.
func list(lib nvml.Interface) (devices []gpu.Device, err error) {
	if ret := lib.Init(); ret == nvml.ERROR_LIBRARY_NOT_FOUND {
		return nil, errors.New("no NVIDIA driver: libnvidia-ml.so.1 cannot be loaded")
	} else if err := fault("start the NVIDIA management library", ret); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, fault("stop the NVIDIA management library", lib.Shutdown())) }()

	count, ret := lib.DeviceGetCount()
	if err := fault("count the GPUs", ret); err != nil {
		return nil, err
	}
	d := driver{symbols: lib.Extensions()}
	for i := range count {
		if err := d.describe(lib, i); err != nil {
			return nil, fmt.Errorf("GPU %d: %w", i, err)
		}
	}
	for i := range d.devices {
		d.connect(i)
	}
	return d.devices, nil
}

// driver is what has been read so far.
type driver struct {
	symbols nvml.ExtendedInterface
	handles []nvml.Device
	devices []gpu.Device
	links   [][]link // by device
}

// has reports whether the driver has all of these functions. One that it lacks would end the process.
func (d *driver) has(functions ...string) bool {
	for _, f := range functions {
		if d.symbols.LookupSymbol("nvmlDevice"+f) != nil {
			return false
		}
	}
	return true
}

// describe asks for everything about one GPU by itself. Only its handle and its PCI
// address must be there; the rest stays unknown where a device does not tell. The library counts
// those too that a control group or a file's mode closes to this process: they are left out, as CUDA leaves them out.
func (d *driver) describe(lib nvml.Interface, index int) error {
	g := gpu.Device{Index: len(d.devices), Minor: -1, NUMANode: -1, Utilization: -1}
	handle, ret := lib.DeviceGetHandleByIndex(index)
	if ret == nvml.ERROR_NO_PERMISSION {
		return nil
	}
	if err := fault("open it", ret); err != nil {
		return err
	}
	pci, ret := handle.GetPciInfo()
	if err := fault("read its PCI address", ret); err != nil {
		return err
	}
	g.BusID = busID(pci)
	if uuid, ret := handle.GetUUID(); ret == nvml.SUCCESS {
		g.UUID = uuid
	}
	if name, ret := handle.GetName(); ret == nvml.SUCCESS {
		g.Name = name
	}
	if memory, ret := handle.GetMemoryInfo(); ret == nvml.SUCCESS {
		g.MemoryBytes, g.MemoryUsed = memory.Total, memory.Used
	}
	if d.has("GetMinorNumber") {
		if minor, ret := handle.GetMinorNumber(); ret == nvml.SUCCESS {
			g.Minor = minor
		}
	}
	if d.has("GetUtilizationRates") {
		if rates, ret := handle.GetUtilizationRates(); ret == nvml.SUCCESS {
			g.Utilization = int(rates.Gpu)
		}
	}
	g.NUMANode = d.numaNode(handle)
	g.MIGEnabled, g.MIG = d.instances(handle)
	g.Processes = d.processes(handle)
	d.handles = append(d.handles, handle)
	d.devices = append(d.devices, g)
	d.links = append(d.links, d.linksOf(handle))
	return nil
}

// numaNode is the node whose memory is next to the GPU, -1 where that is not one. It is not the node that the
// GPU's own memory makes where processor and GPU share their addresses.
func (d *driver) numaNode(handle nvml.Device) int {
	if !d.has("GetMemoryAffinity") {
		return -1
	}
	set, ret := handle.GetMemoryAffinity(numaNodes, nvml.AFFINITY_SCOPE_NODE)
	if ret != nvml.SUCCESS {
		return -1
	}
	node := -1
	for i, word := range set {
		switch {
		case word == 0:
		case node >= 0 || bits.OnesCount(word) > 1:
			return -1
		default:
			node = i*bits.UintSize + bits.TrailingZeros(word)
		}
	}
	return node
}

// instances are those of a GPU that is partitioned.
func (d *driver) instances(handle nvml.Device) (enabled bool, all []gpu.MIG) {
	if !d.has("GetMigMode") {
		return false, nil
	}
	mode, _, ret := handle.GetMigMode()
	if ret != nvml.SUCCESS || mode != nvml.DEVICE_MIG_ENABLE {
		return false, nil
	}
	if !d.has("GetMaxMigDeviceCount", "GetMigDeviceHandleByIndex") {
		return true, nil
	}
	count, ret := handle.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return true, nil
	}
	for i := range count {
		instance, ret := handle.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue // there are places without an instance
		}
		var m gpu.MIG
		if m.UUID, ret = instance.GetUUID(); ret != nvml.SUCCESS {
			continue // nobody could be given it
		}
		if memory, ret := instance.GetMemoryInfo(); ret == nvml.SUCCESS {
			m.MemoryBytes = memory.Total
		}
		m.Profile = d.profile(instance)
		all = append(all, m)
	}
	return true, all
}

// profile is an instance's, which its name ends with, "" where it is not known.
func (d *driver) profile(instance nvml.Device) string {
	if name, ret := instance.GetName(); ret == nvml.SUCCESS {
		if _, profile, found := strings.Cut(name, " MIG "); found {
			return profile
		}
	}
	if !d.has("GetAttributes") {
		return ""
	}
	a, ret := instance.GetAttributes()
	if ret != nvml.SUCCESS {
		return ""
	}
	compute := ""
	if a.ComputeInstanceSliceCount != a.GpuInstanceSliceCount {
		compute = fmt.Sprintf("%dc.", a.ComputeInstanceSliceCount)
	}
	return fmt.Sprintf("%s%dg.%dgb", compute, a.GpuInstanceSliceCount, (a.MemorySizeMB+1023)/1024)
}

// processes are those that compute on the GPU.
func (d *driver) processes(handle nvml.Device) (all []gpu.Process) {
	if !d.has("GetComputeRunningProcesses") {
		return nil
	}
	running, ret := handle.GetComputeRunningProcesses()
	if ret != nvml.SUCCESS {
		return nil
	}
	for _, p := range running {
		bytes := p.UsedGpuMemory
		if bytes == math.MaxUint64 { // not told
			bytes = 0
		}
		all = append(all, gpu.Process{PID: int(p.Pid), MemoryBytes: bytes})
	}
	return all
}

// busID is a PCI address as /sys spells it. GPUs are function 0.
func busID(pci nvml.PciInfo) string {
	return fmt.Sprintf("%04x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)
}

// fault is the error that ret stands for, if any.
func fault(doing string, ret nvml.Return) error {
	if ret == nvml.SUCCESS {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, ret)
}
