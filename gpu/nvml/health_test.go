//go:build cgo

package nvml

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/must"
)

// ofHealth are the functions that health calls, beside those for an inventory.
func ofHealth() []string {
	return strings.Fields("GetEccMode GetTotalEccErrors GetRemappedRows GetClockInfo GetMaxClockInfo " +
		"GetCurrentClocksEventReasons GetTemperature " +
		"GetPowerManagementLimit GetPowerManagementDefaultLimit GetCurrPcieLinkGeneration GetCurrPcieLinkWidth " +
		"GetMaxPcieLinkGeneration GetMaxPcieLinkWidth " +
		"GetPersistenceMode GetNvLinkErrorCounter")
}

// attended is a box of H100s in good health, at work on nothing.
func attended() *server.Server {
	s := furnish(dgxh100.New(), 18, "1g.10gb")
	for i, handle := range s.Devices {
		d := handle.(*server.Device)
		d.GetUUIDFunc = func() (string, nvml.Return) {
			return "GPU-" + strings.Repeat(string(rune('0'+i)), 8), nvml.SUCCESS
		}
		d.SetMigMode(nvml.DEVICE_MIG_DISABLE)
		d.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) {
			return nvml.Memory{Total: 80 << 30, Used: 500 << 20}, nvml.SUCCESS
		}
		d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, nvml.SUCCESS }
		d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.SUCCESS }
		d.GetEccModeFunc = func() (nvml.EnableState, nvml.EnableState, nvml.Return) {
			return nvml.FEATURE_ENABLED, nvml.FEATURE_ENABLED, nvml.SUCCESS
		}
		d.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) {
			return 0, nvml.SUCCESS
		}
		d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 0, false, false, nvml.SUCCESS }
		d.GetClockInfoFunc = func(nvml.ClockType) (uint32, nvml.Return) { return 345, nvml.SUCCESS }
		d.GetMaxClockInfoFunc = func(nvml.ClockType) (uint32, nvml.Return) { return 1980, nvml.SUCCESS }
		d.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) {
			return nvml.ClocksEventReasonGpuIdle, nvml.SUCCESS
		}
		d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 33, nvml.SUCCESS }
		d.GetPowerManagementLimitFunc = func() (uint32, nvml.Return) { return 700_000, nvml.SUCCESS }
		d.GetPowerManagementDefaultLimitFunc = func() (uint32, nvml.Return) { return 700_000, nvml.SUCCESS }
		d.GetCurrPcieLinkGenerationFunc = func() (int, nvml.Return) { return 1, nvml.SUCCESS } // it saves power
		d.GetCurrPcieLinkWidthFunc = func() (int, nvml.Return) { return 16, nvml.SUCCESS }
		d.GetMaxPcieLinkGenerationFunc = func() (int, nvml.Return) { return 5, nvml.SUCCESS }
		d.GetMaxPcieLinkWidthFunc = func() (int, nvml.Return) { return 16, nvml.SUCCESS }
		d.GetPersistenceModeFunc = func() (nvml.EnableState, nvml.Return) { return nvml.FEATURE_ENABLED, nvml.SUCCESS }
		d.GetNvLinkErrorCounterFunc = func(int, nvml.NvLinkErrorCounter) (uint64, nvml.Return) {
			return 0, nvml.SUCCESS
		}
	}
	return s
}

// plant makes GPUs of a box sick, each in another way.
func plant(s *server.Server) {
	at := func(i int) *server.Device { return s.Devices[i].(*server.Device) }
	at(0).GetTotalEccErrorsFunc = func(kind nvml.MemoryErrorType, since nvml.EccCounterType) (uint64, nvml.Return) {
		if kind != nvml.MEMORY_ERROR_TYPE_UNCORRECTED {
			return 77, nvml.SUCCESS
		}
		return 2 + 10*uint64(since), nvml.SUCCESS
	}
	at(1).GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 8, true, true, nvml.SUCCESS }
	at(2).GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) {
		return nvml.ClocksThrottleReasonHwSlowdown | nvml.ClocksThrottleReasonHwThermalSlowdown, nvml.SUCCESS
	}
	at(2).GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 93, nvml.SUCCESS }
	at(3).GetPowerManagementLimitFunc = func() (uint32, nvml.Return) { return 300_000, nvml.SUCCESS }
	at(4).GetCurrPcieLinkWidthFunc = func() (int, nvml.Return) { return 4, nvml.SUCCESS }
	at(5).GetNvLinkStateFunc = func(l int) (nvml.EnableState, nvml.Return) {
		switch {
		case l >= 18:
			return 0, nvml.ERROR_INVALID_ARGUMENT
		case l%6 == 0:
			return nvml.FEATURE_DISABLED, nvml.SUCCESS
		}
		return nvml.FEATURE_ENABLED, nvml.SUCCESS
	}
	at(5).GetNvLinkErrorCounterFunc = func(link int, kind nvml.NvLinkErrorCounter) (uint64, nvml.Return) {
		if kind == nvml.NVLINK_ERROR_DL_RECOVERY && link == 1 {
			return 3, nvml.SUCCESS
		}
		return 0, nvml.SUCCESS
	}
	at(6).GetPersistenceModeFunc = func() (nvml.EnableState, nvml.Return) { return nvml.FEATURE_DISABLED, nvml.SUCCESS }
	at(7).GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 4711, UsedGpuMemory: 70 << 30}}, nvml.SUCCESS
	}
	at(7).GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) {
		return nvml.Memory{Total: 80 << 30, Used: 71 << 30}, nvml.SUCCESS
	}
}

func health(t *testing.T, s *server.Server) (all []gpu.Health) {
	t.Helper()
	devices := must.Get(list(s, true))(t)
	for _, d := range devices {
		must.That(t, d.Health != nil, "GPU %d: no health", d.Index)
		all = append(all, *d.Health)
	}
	return all
}

// The files are what gorun-gpu prints on such hosts; a test of gorun doctor puts them in its place.
func TestHealthOfBoxes(t *testing.T) {
	for name, change := range map[string]func(*server.Server){
		"testdata/healthy.json": func(*server.Server) {}, "testdata/sick.json": plant,
	} {
		s := attended()
		change(s)
		devices := must.Get(list(s, true))(t)
		text := must.Get(json.Marshal(gpu.Inventory{Devices: devices}))(t)
		golden.File(t, name, strings.ReplaceAll(string(text), `{"index"`, "\n"+`{"index"`)+"\n") // a GPU a line
	}
}

func TestHealthIsAskedForOnlyOnRequest(t *testing.T) {
	s := attended()
	s.LookupSymbolFunc = lacking(ofHealth()...).LookupSymbolFunc
	devices := must.Get(list(s, false))(t)
	for i, d := range devices {
		check.That(t, d.Health == nil, "GPU %d has %+v", i, d.Health)
	}
}

// The mock panics where a function is called that its driver lacks; there the process would end.
func TestAnyFunctionOfHealthMayBeMissing(t *testing.T) {
	for _, function := range ofHealth() {
		for _, missing := range []bool{true, false} {
			s := attended()
			plant(s)
			if missing {
				s.LookupSymbolFunc = lacking(function).LookupSymbolFunc
			}
			for _, handle := range s.Devices {
				d := handle.(*server.Device)
				field := reflect.ValueOf(d).Elem().FieldByName(function + "Func")
				if field.SetZero(); !missing {
					field.Set(refusing(field.Type()))
				}
				if function == "GetCurrentClocksEventReasons" { // an older driver has another
					d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) {
						return nvml.ClocksThrottleReasonSwPowerCap, nvml.SUCCESS
					}
				}
				if function == "GetRemappedRows" { // an older GPU retires pages
					d.GetRetiredPagesPendingStatusFunc = func() (nvml.EnableState, nvml.Return) {
						return nvml.FEATURE_ENABLED, nvml.SUCCESS
					}
				}
			}
			for i, h := range health(t, s) {
				switch function {
				case "GetRemappedRows":
					check.That(t, h.RemapPending && !h.RemapFailed, "GPU %d: retired pages are %+v", i, h)
				case "GetCurrentClocksEventReasons":
					check.That(t, missing == slices.Equal(h.Slowdowns, []gpu.Slowdown{gpu.SlowPowerCap}),
						"GPU %d: missing %v, and slow by %v", i, missing, h.Slowdowns)
				}
			}
		}
	}
}
