package gpu

import "encoding/json"

// Device is one GPU. Only Index and BusID are always known. [List] fills the fields known from
// /proc and /sys, [Details] also those known only to the driver.
type Device struct {
	// Index is the device's 0-based index in PCI bus order, the number in
	// CUDA_VISIBLE_DEVICES with CUDA_DEVICE_ORDER=PCI_BUS_ID.
	Index int `json:"index"`

	Minor int    `json:"minor"`  // the N of /dev/nvidiaN; -1 if unknown
	UUID  string `json:"uuid"`   // such as GPU-5d2f…; "" if unknown
	BusID string `json:"bus_id"` // PCI address as /sys spells it: 0000:3b:00.0
	Name  string `json:"name"`   // product name

	NUMANode int    `json:"numa_node"`      // NUMA node of the GPU; -1 if unknown
	CPUs     string `json:"cpus,omitempty"` // the nearest cores, in the format of /sys: 0-15,32-47

	MemoryBytes uint64 `json:"memory_bytes"` // total; 0 if unknown
	MemoryUsed  uint64 `json:"memory_used"`  // bytes
	Utilization int    `json:"utilization"`  // percent of time busy; -1 if unknown

	MIGEnabled bool  `json:"mig_enabled,omitempty"` // whether programs use instances instead of the GPU itself
	MIG        []MIG `json:"mig,omitempty"`

	NVLinks map[int]int  `json:"nvlinks,omitempty"` // a peer's Index → active NVLinks to it
	Paths   map[int]Path `json:"paths,omitempty"`   // a peer's Index → the PCI path to it

	Processes []Process `json:"processes,omitempty"` // processes with memory on it

	Health *Health `json:"health,omitempty"` // nil if it was not requested, or is unknown
}

// MIG is an instance of a partitioned GPU, which CUDA addresses by its UUID like a GPU.
type MIG struct {
	UUID        string `json:"uuid"`    // such as MIG-5d2f…
	Profile     string `json:"profile"` // such as 1g.5gb
	MemoryBytes uint64 `json:"memory_bytes"`
}

// Process is a process with memory on a GPU.
type Process struct {
	PID         int    `json:"pid"`
	MemoryBytes uint64 `json:"memory_bytes"` // 0 if unknown
}

// Path is the distance of two GPUs on the PCI tree, with the numbers and meaning of NVML's
// topology levels. A lower value is nearer.
type Path int

// The farthest component on the path between two GPUs.
const (
	Internal         Path = 0  // both GPUs on one board
	SingleSwitch     Path = 10 // one PCI switch
	MultipleSwitches Path = 20 // several PCI switches, no host bridge
	HostBridge       Path = 30 // one host bridge
	Node             Path = 40 // several host bridges of one NUMA node
	System           Path = 50 // the link between NUMA nodes
)

// String returns the abbreviation of nvidia-smi's topology matrix.
func (p Path) String() string {
	switch p {
	case Internal:
		return "PSB"
	case SingleSwitch:
		return "PIX"
	case MultipleSwitches:
		return "PXB"
	case HostBridge:
		return "PHB"
	case Node:
		return "NODE"
	case System:
		return "SYS"
	}
	return "?"
}

func unknown() Device { return Device{Minor: -1, NUMANode: -1, Utilization: -1} }

// UnmarshalJSON leaves fields that are absent from text unknown.
func (d *Device) UnmarshalJSON(text []byte) error {
	type plain Device
	p := plain(unknown())
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	*d = Device(p)
	return nil
}
