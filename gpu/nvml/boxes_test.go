//go:build cgo

package nvml

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxb200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// boxes are go-nvml's mocks with their expected values: name, memory in MiB, and the NVLinks of a
// GPU, which all lead to switches.
func boxes() map[string]struct {
	make     func() *server.Server
	name     string
	mib      uint64
	nvlinks  int
	instance string // a MIG profile of it
} {
	return map[string]struct {
		make     func() *server.Server
		name     string
		mib      uint64
		nvlinks  int
		instance string
	}{
		"DGX A100": {dgxa100.New, "Mock NVIDIA A100-SXM4-40GB", 40960, 12, "1g.5gb"},
		"DGX H100": {dgxh100.New, "NVIDIA H100 80GB HBM3", 81920, 18, "1g.10gb"},
		"DGX H200": {dgxh200.New, "NVIDIA H200 141GB HBM3e", 144384, 18, "1g.18gb"},
		"DGX B200": {dgxb200.New, "NVIDIA B200 180GB HBM3e", 184320, 18, "1g.23gb"},
	}
}

// bare is a box as go-nvml makes it, for which it has none of the newer functions but two.
func bare(s *server.Server) *server.Server {
	missing := slices.DeleteFunc(newer(), func(f string) bool { return f == "GetMinorNumber" || f == "GetMigMode" })
	s.LookupSymbolFunc = lacking(missing...).LookupSymbolFunc
	return s
}

func TestBoxesAsTheyAre(t *testing.T) {
	for name, b := range boxes() {
		s := bare(b.make())
		devices, err := list(s, false)
		must.That(t, err == nil && len(devices) == 8, "%s: %+v, %v", name, devices, err)
		for i, d := range devices {
			want := gpu.Device{
				Index:       i,
				Minor:       i,
				UUID:        s.Devices[i].(*server.Device).UUID,
				BusID:       "0000:00:00.0",
				Name:        b.name,
				NUMANode:    -1,
				MemoryBytes: b.mib << 20,
				Utilization: -1,
			}
			must.That(t, reflect.DeepEqual(d, want), "%s: %+v\nwant %+v", name, d, want)
		}
	}
}

// furnish adds to a box what the mock lacks: addresses, NUMA nodes, links to switches, processes,
// and a MIG instance on the last GPU.
func furnish(s *server.Server, nvlinks int, profile string) *server.Server {
	for i, handle := range s.Devices {
		d := handle.(*server.Device)
		d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) {
			return nvml.PciInfo{Bus: uint32(0x10 + i)}, nvml.SUCCESS
		}
		d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
			return nvml.Utilization{Gpu: uint32(10 * i), Memory: 99}, nvml.SUCCESS
		}
		d.GetMemoryAffinityFunc = func(n int, _ nvml.AffinityScope) ([]uint, nvml.Return) {
			set := make([]uint, n/8)
			set[0] = 1 << (i / 4)
			return set, nvml.SUCCESS
		}
		d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
			return []nvml.ProcessInfo{{Pid: 100, UsedGpuMemory: 1 << 20}, {Pid: 101, UsedGpuMemory: math.MaxUint64}},
				nvml.SUCCESS
		}
		d.GetNvLinkStateFunc = func(l int) (nvml.EnableState, nvml.Return) {
			if l >= nvlinks {
				return 0, nvml.ERROR_INVALID_ARGUMENT
			}
			return nvml.FEATURE_ENABLED, nvml.SUCCESS
		}
		d.GetNvLinkRemotePciInfoFunc = func(int) (nvml.PciInfo, nvml.Return) {
			return nvml.PciInfo{Bus: 0xc0}, nvml.SUCCESS
		}
		d.GetNvLinkRemoteDeviceTypeFunc = func(int) (nvml.IntNvLinkDeviceType, nvml.Return) {
			return nvml.NVLINK_DEVICE_TYPE_SWITCH, nvml.SUCCESS
		}
		d.GetTopologyCommonAncestorFunc = func(peer nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) {
			if peer.(*server.Device).Index/4 == i/4 {
				return nvml.TOPOLOGY_NODE, nvml.SUCCESS
			}
			return nvml.TOPOLOGY_SYSTEM, nvml.SUCCESS
		}
	}
	last := s.Devices[len(s.Devices)-1].(*server.Device)
	last.SetMigMode(nvml.DEVICE_MIG_ENABLE)
	last.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	last.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i != 3 {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return &mock.Device{
			GetUUIDFunc: func() (string, nvml.Return) { return "MIG-3", nvml.SUCCESS },
			GetNameFunc: func() (string, nvml.Return) {
				return last.Config.Name + " MIG " + profile, nvml.SUCCESS
			},
			GetMemoryInfoFunc: func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 5 << 30}, nvml.SUCCESS },
		}, nvml.SUCCESS
	}
	return s
}

func TestFurnishedBoxes(t *testing.T) {
	for name, b := range boxes() {
		began := time.Now()
		devices, err := list(furnish(b.make(), b.nvlinks, b.instance), false)
		if took := time.Since(began); took > time.Second { // the goal is 100 ms; see BenchmarkList
			t.Errorf("%s: it took %v", name, took)
		}
		must.That(t, err == nil && len(devices) == 8, "%s: %+v, %v", name, devices, err)
		for i, d := range devices {
			want := gpu.Device{
				Index:       i,
				Minor:       i,
				UUID:        d.UUID,
				BusID:       fmt.Sprintf("0000:%02x:00.0", 0x10+i),
				Name:        b.name,
				NUMANode:    i / 4,
				MemoryBytes: b.mib << 20,
				Utilization: 10 * i,
				NVLinks:     map[int]int{},
				Paths:       map[int]gpu.Path{},
				Processes:   []gpu.Process{{PID: 100, MemoryBytes: 1 << 20}, {PID: 101}},
			}
			for j := range devices {
				if i == j {
					continue
				}
				want.NVLinks[j] = b.nvlinks
				want.Paths[j] = gpu.System
				if i/4 == j/4 {
					want.Paths[j] = gpu.Node
				}
			}
			if i == 7 {
				want.MIGEnabled = true
				want.MIG = []gpu.MIG{{UUID: "MIG-3", Profile: b.instance, MemoryBytes: 5 << 30}}
			}
			must.That(t, reflect.DeepEqual(d, want), "%s: %+v\nwant %+v", name, d, want)
		}
	}
}

// A driver may lack any function, and a device refuse any: the mock panics where it is asked all
// the same, and the process would end.
func TestAnyFunctionMayBeMissing(t *testing.T) {
	whole := must.Get(list(furnish(dgxa100.New(), 12, "1g.5gb"), false))(t)
	for _, function := range newer() {
		for _, missing := range []bool{true, false} {
			s := furnish(dgxa100.New(), 12, "1g.5gb")
			if missing {
				s.LookupSymbolFunc = lacking(function).LookupSymbolFunc
			}
			for _, handle := range s.Devices {
				f := reflect.ValueOf(handle).Elem().FieldByName(function + "Func")
				if f.SetZero(); !missing {
					f.Set(refusing(f.Type()))
				}
			}
			devices, err := list(s, false)
			must.That(t, err == nil && len(devices) == 8, "without %s: %+v, %v", function, devices, err)
			for i := range devices {
				devices[i].UUID = whole[i].UUID // they are made up anew
			}
			// Links to switches need no address, and names tell of profiles.
			same := function == "GetAttributes" || function == "GetNvLinkRemotePciInfo" && !missing
			check.That(t, reflect.DeepEqual(devices, whole) == same,
				"%s (missing: %v): %+v", function, missing, devices)
		}
	}
}

// refusing is a function that a device does not support.
func refusing(kind reflect.Type) reflect.Value {
	return reflect.MakeFunc(kind, func([]reflect.Value) (results []reflect.Value) {
		for i := range kind.NumOut() {
			results = append(results, reflect.Zero(kind.Out(i)))
		}
		results[len(results)-1] = reflect.ValueOf(nvml.ERROR_NOT_SUPPORTED)
		return results
	})
}

// In a Slurm job the library counts the GPUs of others too, and opens only the job's own: those are
// numbered as CUDA does it.
func TestGPUsOfOthers(t *testing.T) {
	s := furnish(dgxa100.New(), 12, "1g.5gb")
	s.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i != 2 && i != 5 {
			return nil, nvml.ERROR_NO_PERMISSION
		}
		return s.Devices[i], nvml.SUCCESS
	}
	devices, err := list(s, false)
	must.That(t, err == nil && len(devices) == 2, "%+v, %v", devices, err)
	for i, d := range devices {
		want := []string{"0000:12:00.0", "0000:15:00.0"}[i]
		check.That(t, d.Index == i && d.BusID == want && reflect.DeepEqual(d.NVLinks, map[int]int{1 - i: 12}) &&
			d.Paths[1-i] == gpu.System, "device %d is %+v, want %s", i, d, want)
	}
}

func TestDirectLinks(t *testing.T) {
	s := furnish(dgxa100.New(), 4, "1g.5gb")
	for i, handle := range s.Devices {
		d := handle.(*server.Device)
		d.GetNvLinkRemoteDeviceTypeFunc = func(int) (nvml.IntNvLinkDeviceType, nvml.Return) {
			return nvml.NVLINK_DEVICE_TYPE_GPU, nvml.SUCCESS
		}
		d.GetNvLinkStateFunc = func(l int) (nvml.EnableState, nvml.Return) {
			switch {
			case l == 1: // it is broken
				return 0, nvml.ERROR_UNKNOWN
			case l == 2:
				return nvml.FEATURE_DISABLED, nvml.SUCCESS
			case l > 5:
				return 0, nvml.ERROR_NOT_SUPPORTED
			}
			return nvml.FEATURE_ENABLED, nvml.SUCCESS
		}
		d.GetNvLinkRemotePciInfoFunc = func(l int) (nvml.PciInfo, nvml.Return) {
			// the neighbour, and from link 5 on the one after that
			return nvml.PciInfo{Bus: uint32(0x10 + i ^ 1 + l/5*2)}, nvml.SUCCESS
		}
	}
	devices, err := list(s, false)
	check.That(t, err == nil && reflect.DeepEqual(devices[0].NVLinks, map[int]int{1: 3, 3: 1}),
		"%+v, %v", devices[0].NVLinks, err)
}

func TestProfileOfAttributes(t *testing.T) {
	d := driver{symbols: lacking()}
	for want, a := range map[string]nvml.DeviceAttributes{
		"1g.5gb":     {GpuInstanceSliceCount: 1, ComputeInstanceSliceCount: 1, MemorySizeMB: 4864},
		"7g.40gb":    {GpuInstanceSliceCount: 7, ComputeInstanceSliceCount: 7, MemorySizeMB: 40192},
		"1c.3g.20gb": {GpuInstanceSliceCount: 3, ComputeInstanceSliceCount: 1, MemorySizeMB: 19968},
	} {
		got := d.profile(&mock.Device{
			GetNameFunc:       func() (string, nvml.Return) { return "NVIDIA A100-SXM4-40GB", nvml.SUCCESS },
			GetAttributesFunc: func() (nvml.DeviceAttributes, nvml.Return) { return a, nvml.SUCCESS },
		})
		check.Equal(t, got, want, "profile")
	}
}

func TestNUMANodeOfAffinity(t *testing.T) {
	d := driver{symbols: lacking()}
	for want, set := range map[int][]uint{0: {1}, 3: {8, 0}, 64: {0, 1}, -1: {0, 0}, -2: {3, 0}, -3: {1, 1}} {
		got := d.numaNode(&mock.Device{GetMemoryAffinityFunc: func(int, nvml.AffinityScope) ([]uint, nvml.Return) {
			return set, nvml.SUCCESS
		}})
		check.That(t, got == max(want, -1), "numaNode(%v) = %d", set, got)
	}
}

// BenchmarkList is the inventory of a box with 8 GPUs: the goal is 100 ms.
func BenchmarkList(b *testing.B) {
	s := furnish(dgxh100.New(), 18, "1g.10gb")
	for b.Loop() {
		must.Get(list(s, false))(b)
	}
}
