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

// numaNodes is the most that Linux supports.
const numaNodes = 1024

// List returns the GPUs that the driver lets this process use, in the order of their indices, with
// all fields that the driver knows. It blocks as long as the driver does. It is not safe for
// concurrent use.
func List() ([]gpu.Device, error) {
	return list(nvml.New(), false)
}

// Examine is List with the health of the GPUs.
func Examine() ([]gpu.Device, error) {
	return list(nvml.New(), true)
}

// list reads the inventory from lib. No other call may precede Init, which loads the library: a
// missing symbol ends the process. The calls made here and in describe exist in every driver since
// 2013; has checks the others.
func list(lib nvml.Interface, health bool) (devices []gpu.Device, err error) {
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
		if health {
			d.devices[i].Health = d.health(d.handles[i])
		}
	}
	return d.devices, nil
}

// driver collects what the driver reports.
type driver struct {
	symbols nvml.ExtendedInterface
	handles []nvml.Device
	devices []gpu.Device
	links   [][]link // links by device
}

// has reports whether the driver has all of these functions. Calling one that it lacks would end
// the process.
func (d *driver) has(functions ...string) bool {
	for _, f := range functions {
		if d.symbols.LookupSymbol("nvmlDevice"+f) != nil {
			return false
		}
	}
	return true
}

// describe reads everything about one GPU but its links. Only its handle and its PCI address are
// required. It omits a GPU that a control group or a file's mode closes to this process, as CUDA
// does, although the library counts it.
func (d *driver) describe(lib nvml.Interface, index int) error {
	g := gpu.Device{
		Index:       len(d.devices),
		Minor:       -1,
		NUMANode:    -1,
		Utilization: -1,
	}
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
	g.UUID = known(handle.GetUUID())
	g.Name = known(handle.GetName())
	memory := known(handle.GetMemoryInfo())
	g.MemoryBytes = memory.Total
	g.MemoryUsed = memory.Used
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

// known returns a value of the driver, or the zero value if the driver does not know it.
func known[T any](value T, ret nvml.Return) (zero T) {
	if ret == nvml.SUCCESS {
		return value
	}
	return zero
}

// numaNode returns the node whose memory is nearest to the GPU, or -1 if that is not one node. It
// never returns the node of the GPU's own memory, which exists where CPU and GPU share
// addresses.
func (d *driver) numaNode(handle nvml.Device) int {
	if !d.has("GetMemoryAffinity") {
		return -1
	}
	node := -1
	for i, word := range known(handle.GetMemoryAffinity(numaNodes, nvml.AFFINITY_SCOPE_NODE)) {
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

// instances returns the instances of a partitioned GPU.
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
	for i := range known(handle.GetMaxMigDeviceCount()) {
		instance, ret := handle.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue // not every index has an instance
		}
		var m gpu.MIG
		if m.UUID, ret = instance.GetUUID(); ret != nvml.SUCCESS {
			continue // it cannot be assigned
		}
		m.MemoryBytes = known(instance.GetMemoryInfo()).Total
		m.Profile = d.profile(instance)
		all = append(all, m)
	}
	return true, all
}

// profile returns the profile of an instance, with which its name ends, or "".
func (d *driver) profile(instance nvml.Device) string {
	if _, profile, found := strings.Cut(known(instance.GetName()), " MIG "); found {
		return profile
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

// processes returns the processes that compute on the GPU.
func (d *driver) processes(handle nvml.Device) (all []gpu.Process) {
	if !d.has("GetComputeRunningProcesses") {
		return nil
	}
	for _, p := range known(handle.GetComputeRunningProcesses()) {
		bytes := p.UsedGpuMemory
		if bytes == math.MaxUint64 { // unknown
			bytes = 0
		}
		all = append(all, gpu.Process{PID: int(p.Pid), MemoryBytes: bytes})
	}
	return all
}

// busID returns a PCI address in the format of /sys. GPUs are function 0.
func busID(pci nvml.PciInfo) string {
	return fmt.Sprintf("%04x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)
}

// fault returns the error for ret, nil for success.
func fault(doing string, ret nvml.Return) error {
	if ret == nvml.SUCCESS {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, ret)
}
