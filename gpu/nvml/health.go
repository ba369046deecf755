//go:build cgo

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gorun/gorun/gpu"
)

// health asks for the condition of one GPU. What its driver lacks, or the GPU does not support,
// stays unknown.
func (d *driver) health(handle nvml.Device) *gpu.Health {
	h := &gpu.Health{}
	d.memoryHealth(handle, h)
	d.clocks(handle, h)
	if d.has("GetTemperature") {
		h.Temperature = int(known(handle.GetTemperature(nvml.TEMPERATURE_GPU)))
	}
	if d.has("GetPowerManagementLimit") {
		h.PowerLimit = float64(known(handle.GetPowerManagementLimit())) / 1000
	}
	if d.has("GetPowerManagementDefaultLimit") {
		h.PowerDefault = float64(known(handle.GetPowerManagementDefaultLimit())) / 1000
	}
	if d.has("GetCurrPcieLinkGeneration", "GetCurrPcieLinkWidth") {
		h.PCIe = gpu.PCIe{Generation: known(handle.GetCurrPcieLinkGeneration()),
			Width: known(handle.GetCurrPcieLinkWidth())}
	}
	if d.has("GetMaxPcieLinkGeneration", "GetMaxPcieLinkWidth") {
		h.MaxPCIe = gpu.PCIe{Generation: known(handle.GetMaxPcieLinkGeneration()),
			Width: known(handle.GetMaxPcieLinkWidth())}
	}
	if d.has("GetPersistenceMode") {
		h.Persistence = enabled(handle.GetPersistenceMode())
	}
	d.countLinks(handle, h)
	return h
}

// enabled reports a state, or nil if it is unknown.
func enabled(state nvml.EnableState, ret nvml.Return) *bool {
	if ret != nvml.SUCCESS {
		return nil
	}
	return new(state == nvml.FEATURE_ENABLED)
}

func (d *driver) memoryHealth(handle nvml.Device, h *gpu.Health) {
	if d.has("GetEccMode") {
		now, _, ret := handle.GetEccMode()
		h.ECC = enabled(now, ret)
	}
	if d.has("GetTotalEccErrors") {
		h.Uncorrected = known(handle.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC))
		h.UncorrectedEver = known(handle.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.AGGREGATE_ECC))
	}
	if d.has("GetRemappedRows") {
		if _, _, pending, failed, ret := handle.GetRemappedRows(); ret == nvml.SUCCESS {
			h.RemapPending = pending
			h.RemapFailed = failed
			return
		}
	}
	if d.has("GetRetiredPagesPendingStatus") { // GPUs before Ampere
		pending := enabled(handle.GetRetiredPagesPendingStatus())
		h.RemapPending = pending != nil && *pending
	}
}

func (d *driver) clocks(handle nvml.Device, h *gpu.Health) {
	if d.has("GetClockInfo") {
		h.Clock = int(known(handle.GetClockInfo(nvml.CLOCK_SM)))
	}
	if d.has("GetMaxClockInfo") {
		h.MaxClock = int(known(handle.GetMaxClockInfo(nvml.CLOCK_SM)))
	}
	var reasons uint64
	switch {
	case d.has("GetCurrentClocksEventReasons"):
		reasons = known(handle.GetCurrentClocksEventReasons())
	case d.has("GetCurrentClocksThrottleReasons"): // its name before driver 535
		reasons = known(handle.GetCurrentClocksThrottleReasons())
	}
	h.Idle = reasons&nvml.ClocksEventReasonGpuIdle != 0
	for _, r := range []struct {
		bit  uint64
		name gpu.Slowdown
	}{
		{nvml.ClocksEventReasonSwPowerCap, gpu.SlowPowerCap},
		{nvml.ClocksEventReasonApplicationsClocksSetting, gpu.SlowSettings},
		{nvml.ClocksThrottleReasonHwSlowdown, gpu.SlowHardware},
		{nvml.ClocksEventReasonSwThermalSlowdown, gpu.SlowHeat},
		{nvml.ClocksThrottleReasonHwThermalSlowdown, gpu.SlowHeatBrake},
		{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, gpu.SlowPowerBrake},
	} {
		if reasons&r.bit != 0 {
			h.Slowdowns = append(h.Slowdowns, r.name)
		}
	}
}

func (d *driver) countLinks(handle nvml.Device, h *gpu.Health) {
	if !d.has("GetNvLinkState") {
		return
	}
	errors := d.has("GetNvLinkErrorCounter")
	for i := range nvml.NVLINK_MAX_LINKS {
		state, ret := handle.GetNvLinkState(i)
		if ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_INVALID_ARGUMENT {
			return // past its last link
		}
		if ret != nvml.SUCCESS || state != nvml.FEATURE_ENABLED {
			h.NVLinksDown++
			continue
		}
		h.NVLinksUp++
		if errors {
			h.NVLinkRecoveries += known(handle.GetNvLinkErrorCounter(i, nvml.NVLINK_ERROR_DL_RECOVERY))
		}
	}
}
