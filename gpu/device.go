package gpu

import "encoding/json"

// Device is one GPU. Only Index and BusID are always known: [List] fills what /proc and /sys say,
// [Details] also what the driver says.
type Device struct {
	// Index is the device's place in PCI bus order, from 0: what
	// CUDA_VISIBLE_DEVICES means by a number under CUDA_DEVICE_ORDER=PCI_BUS_ID.
	Index int `json:"index"`

	Minor int    `json:"minor"`  // the N of /dev/nvidiaN; -1 where not known
	UUID  string `json:"uuid"`   // such as GPU-5d2f…; "" where not known
	BusID string `json:"bus_id"` // PCI address as /sys spells it: 0000:3b:00.0
	Name  string `json:"name"`   // product name

	NUMANode int    `json:"numa_node"`      // the NUMA node it hangs on; -1 where not known
	CPUs     string `json:"cpus,omitempty"` // the cores next to it, as /sys lists them: 0-15,32-47

	MemoryBytes uint64 `json:"memory_bytes"` // all of it, used or not; 0 where not known
	MemoryUsed  uint64 `json:"memory_used"`  // bytes
	Utilization int    `json:"utilization"`  // percent of the time that it computed; -1 where not known

	MIGEnabled bool  `json:"mig_enabled,omitempty"` // programs get its instances, not the GPU itself
	MIG        []MIG `json:"mig,omitempty"`

	NVLinks map[int]int  `json:"nvlinks,omitempty"` // a peer's Index → active NVLinks to it
	Paths   map[int]Path `json:"paths,omitempty"`   // a peer's Index → how near it is over PCI

	Processes []Process `json:"processes,omitempty"` // that hold memory of it
}

// MIG is an instance of a partitioned GPU: CUDA takes it for a GPU by its UUID.
type MIG struct {
	UUID        string `json:"uuid"`    // such as MIG-5d2f…
	Profile     string `json:"profile"` // such as 1g.5gb
	MemoryBytes uint64 `json:"memory_bytes"`
}

// Process is one that has memory of a GPU.
type Process struct {
	PID         int    `json:"pid"`
	MemoryBytes uint64 `json:"memory_bytes"` // 0 where not known
}

// Path is what lies between two GPUs on the PCI tree, with the numbers and the meaning of NVML's
// topology levels. Less is nearer.
type Path int

// What the way between two GPUs crosses at most.
const (
	Internal         Path = 0  // both are on one board
	SingleSwitch     Path = 10 // one PCI switch
	MultipleSwitches Path = 20 // several PCI switches, no host bridge
	HostBridge       Path = 30 // one host bridge
	Node             Path = 40 // several host bridges of one NUMA node
	System           Path = 50 // the link between NUMA nodes
)

// String is how nvidia-smi's topology matrix writes it.
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

// unknown is a device of which nothing is known yet.
func unknown() Device { return Device{Minor: -1, NUMANode: -1, Utilization: -1} }

// UnmarshalJSON leaves unknown what text does not tell.
func (d *Device) UnmarshalJSON(text []byte) error {
	type plain Device
	p := plain(unknown())
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	*d = Device(p)
	return nil
}
