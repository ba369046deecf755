//go:build cgo

package nvml

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/test/check"
)

// box is a machine with the given GPUs, as the driver's library shows it. The
// mock panics on every call that has no answer here, and so does a box that is
// asked before it was started or after it was stopped.
func box(t *testing.T, handles ...nvml.Device) *mock.Interface {
	open := false
	t.Cleanup(func() { check.That(t, !open, "the library was left open") })
	use := func() {
		if !open {
			panic("the library is asked while it is not open")
		}
	}
	return &mock.Interface{
		InitFunc:           func() nvml.Return { open = true; return nvml.SUCCESS },
		ShutdownFunc:       func() nvml.Return { use(); open = false; return nvml.SUCCESS },
		ExtensionsFunc:     func() nvml.ExtendedInterface { use(); return lacking() },
		DeviceGetCountFunc: func() (int, nvml.Return) { use(); return len(handles), nvml.SUCCESS },
		DeviceGetHandleByIndexFunc: func(i int) (nvml.Device, nvml.Return) {
			use()
			return handles[i], nvml.SUCCESS
		},
	}
}

// lacking are the symbols of a driver that has all but some of the functions.
func lacking(functions ...string) *mock.ExtendedInterface {
	return &mock.ExtendedInterface{LookupSymbolFunc: func(symbol string) error {
		if slices.Contains(functions, strings.TrimPrefix(symbol, "nvmlDevice")) {
			return errors.New("undefined symbol: " + symbol)
		}
		return nil
	}}
}

// newer are the functions that some driver lacks.
func newer() []string {
	return strings.Fields("GetMinorNumber GetUtilizationRates GetMemoryAffinity GetMigMode GetMaxMigDeviceCount " +
		"GetMigDeviceHandleByIndex GetAttributes " +
		"GetComputeRunningProcesses GetNvLinkState GetNvLinkRemotePciInfo GetNvLinkRemoteDeviceType " +
		"GetTopologyCommonAncestor")
}

// a100 is one GPU of an old driver. The mock panics on calls that not every driver has.
func a100(bus uint32) *mock.Device {
	return &mock.Device{
		GetPciInfoFunc: func() (nvml.PciInfo, nvml.Return) { return nvml.PciInfo{Bus: bus}, nvml.SUCCESS },
		GetUUIDFunc:    func() (string, nvml.Return) { return "GPU-1", nvml.SUCCESS },
		GetNameFunc:    func() (string, nvml.Return) { return "A100", nvml.SUCCESS },
		GetMemoryInfoFunc: func() (nvml.Memory, nvml.Return) {
			return nvml.Memory{Total: 40 << 30, Used: 39 << 30, Free: 1 << 30}, nvml.SUCCESS
		},
	}
}

// mute is a GPU that reports its address only.
func mute(bus uint32) *mock.Device {
	d := a100(bus)
	d.GetUUIDFunc = func() (string, nvml.Return) { return "", nvml.ERROR_NO_PERMISSION }
	d.GetNameFunc = func() (string, nvml.Return) { return "", nvml.ERROR_UNKNOWN }
	d.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_NOT_SUPPORTED }
	return d
}

func TestListOfAnOldDriver(t *testing.T) {
	old := box(t, a100(0x07), mute(0x3b))
	old.ExtensionsFunc = func() nvml.ExtendedInterface { return lacking(newer()...) }
	got, err := list(old, false)
	want := []gpu.Device{
		{Index: 0, Minor: -1, UUID: "GPU-1", BusID: "0000:07:00.0", Name: "A100", NUMANode: -1, MemoryBytes: 40 << 30,
			MemoryUsed: 39 << 30, Utilization: -1},
		{Index: 1, Minor: -1, BusID: "0000:3b:00.0", NUMANode: -1, Utilization: -1},
	}
	check.That(t, err == nil && reflect.DeepEqual(got, want), "list = %+v, %v\nwant %+v", got, err, want)
	got, err = list(box(t), false)
	check.That(t, err == nil && len(got) == 0, "list of an empty box = %#v, %v", got, err)
}

func TestListErrors(t *testing.T) {
	noCount := box(t, a100(1))
	noCount.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_GPU_IS_LOST }
	lost := a100(1)
	lost.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) { return nvml.PciInfo{}, nvml.ERROR_GPU_IS_LOST }
	stuck := box(t, a100(1))
	stuck.DeviceGetHandleByIndexFunc = func(int) (nvml.Device, nvml.Return) { return nil, nvml.ERROR_GPU_IS_LOST }
	tests := map[string]struct {
		lib  nvml.Interface
		want string
	}{
		"no library": {&mock.Interface{InitFunc: func() nvml.Return {
			return nvml.ERROR_LIBRARY_NOT_FOUND
		}}, "no NVIDIA driver: libnvidia-ml.so.1 cannot be loaded"},
		"no driver": {&mock.Interface{InitFunc: func() nvml.Return {
			return nvml.ERROR_DRIVER_NOT_LOADED
		}}, "start the NVIDIA management library: "},
		"no count":      {noCount, "count the GPUs: "},
		"no handle":     {stuck, "GPU 0: open it: "},
		"a GPU is lost": {box(t, lost), "GPU 0: read its PCI address: "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			devices, err := list(tt.lib, false)
			check.That(t, err != nil && strings.HasPrefix(err.Error(), tt.want) && devices == nil,
				"list = %v, %v\nwant %q", devices, err, tt.want)
		})
	}
	check.Error(list(noCount, false)).Is(t, nvml.ERROR_GPU_IS_LOST, "the driver's own error is not in")
}
