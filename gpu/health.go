package gpu

// Health is the condition of one GPU, as the driver tells it. A pointer that is nil, and a number
// that is 0, is unknown where nothing else is said.
type Health struct {
	// ECC reports whether errors in memory are corrected. Errors that could not be are counted
	// since the driver was loaded, and ever.
	ECC             *bool  `json:"ecc,omitempty"`
	Uncorrected     uint64 `json:"ecc_uncorrected"`
	UncorrectedEver uint64 `json:"ecc_uncorrected_ever"`

	// Rows of memory are replaced by spare ones after such errors, pages on older GPUs: with the
	// next reset, if it is pending. It fails without spare rows.
	RemapPending bool `json:"remap_pending,omitempty"`
	RemapFailed  bool `json:"remap_failed,omitempty"`

	Slowdowns   []Slowdown `json:"slowdowns,omitempty"` // current causes of low clocks
	Idle        bool       `json:"idle,omitempty"`      // whether the clocks are low because the GPU is idle
	Clock       int        `json:"clock_mhz"`           // current clock of the multiprocessors
	MaxClock    int        `json:"max_clock_mhz"`
	Temperature int        `json:"temperature_c"`

	PowerLimit   float64 `json:"power_limit_w"`
	PowerDefault float64 `json:"power_default_w"` // limit by design

	PCIe    PCIe `json:"pcie"`     // current link: an idle GPU lowers the generation
	MaxPCIe PCIe `json:"max_pcie"` // maximum of the GPU in its slot

	NVLinksUp int `json:"nvlinks_up"`
	// which it has, and nothing is at their far end, or that are broken
	NVLinksDown      int    `json:"nvlinks_down"`
	NVLinkRecoveries uint64 `json:"nvlink_recoveries"` // number of times that a link was set up anew

	Persistence *bool `json:"persistence,omitempty"` // whether the driver stays loaded while no program uses the GPU
}

// PCIe is the speed of a link.
type PCIe struct {
	Generation int `json:"generation"`
	Width      int `json:"width"` // lanes
}

// Slowdown is a reason for low clocks.
type Slowdown string

// Reasons for low clocks. A load that takes all the power that it may is SlowPowerCap, which is no
// fault.
const (
	SlowPowerCap   Slowdown = "power cap"
	SlowSettings   Slowdown = "clock settings"
	SlowHardware   Slowdown = "hardware slowdown"
	SlowHeat       Slowdown = "temperature"
	SlowHeatBrake  Slowdown = "temperature, braked by the hardware"
	SlowPowerBrake Slowdown = "power supply, braked by the hardware"
)
