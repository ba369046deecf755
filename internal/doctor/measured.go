package doctor

import "github.com/gorun/gorun/gpu"

// Measured is the result of an examination. Hosts and links are in no order; links name hosts by
// their index in Names.
type Measured struct {
	Names []string        `json:"names"`
	Hosts map[string]Host `json:"hosts"`
	Links []Link          `json:"links,omitempty"`
}

// Host is the result for one host. Nil parts were not measured.
type Host struct {
	Login    *Login `json:"login,omitempty"`
	Facts    *Facts `json:"facts,omitempty"`
	Speed    *Speed `json:"speed,omitempty"`
	Finished bool   `json:"finished"` // whether the probe finished
	// Unexamined: nothing is known of the host, because examinations ended early by others' fault.
	Unexamined bool `json:"unexamined,omitempty"`
	Alone      bool `json:"alone,omitempty"` // whether other probes did not come to meet this one in time

	GPUs       []gpu.Device `json:"gpus,omitempty"`
	GPUProblem string       `json:"gpu_problem,omitempty"` // reason why the GPUs' health is unknown

	Error string `json:"error,omitempty"` // reason why the host could not be examined
	Hint  string `json:"hint,omitempty"`
}

// Login describes the login to a host by SSH.
type Login struct {
	Seconds float64 `json:"seconds"`         // seconds until a command could run
	Noise   string  `json:"noise,omitempty"` // beginning of the start files' output

	HostKey    string `json:"host_key,omitempty"`    // type of the host's key, such as ssh-ed25519
	UserKey    string `json:"user_key,omitempty"`    // type of the user's accepted key
	Offered    int    `json:"offered,omitempty"`     // number of keys offered until one was accepted
	OneSession bool   `json:"one_session,omitempty"` // whether the server refuses a second session in a connection
}

// Facts are a host's own report. Sizes are in bytes and times in seconds; zero is unknown, except
// where a field says otherwise.
type Facts struct {
	Hostname string `json:"hostname"`
	Machine  string `json:"machine,omitempty"` // id equal on all hosts of one machine
	Kernel   string `json:"kernel"`
	Libc     string `json:"libc,omitempty"`
	Processor
	MainMemory
	Ptrace     string            `json:"ptrace_scope,omitempty"`
	Shm        Disk              `json:"shm"`
	Disks      []Disk            `json:"disks,omitempty"` // home, tmp and cache
	Limits     map[string]uint64 `json:"limits"`          // soft limits, by the names of Limits
	Infiniband bool              `json:"infiniband,omitempty"`
	Versions   map[string]string `json:"versions,omitempty"` // by the names of Versions
	Unasked    bool              `json:"unasked,omitempty"`  // slow host: versions and limits are missing
	NVIDIA     bool              `json:"nvidia,omitempty"`   // whether the kernel drives NVIDIA GPUs
	Xids       []Xid             `json:"xids,omitempty"`     // GPU errors in the kernel's log, if readable
	// processes outside this job that use a core or a large part of it
	Busy []Process `json:"busy,omitempty"`
	DNS  DNS       `json:"dns"`
}

// Processor is what a host computes with.
type Processor struct {
	CPU       string  `json:"cpu,omitempty"`
	Cores     int     `json:"cores"`           // cores that the process may run on
	Quota     float64 `json:"quota,omitempty"` // cores by the cgroup's CPU quota; 0: no quota
	MHz       float64 `json:"mhz,omitempty"`
	Governor  string  `json:"governor,omitempty"`
	Throttles int64   `json:"throttles,omitempty"` // thermal throttle events while the host was examined
	Steal     float64 `json:"steal"`               // share of CPU time that the hypervisor took, 0 to 1
	Load      float64 `json:"load"`                // runnable processes per core, over a minute
}

// MainMemory is a host's main memory, and the kernel's settings of it.
type MainMemory struct {
	Memory      int64        `json:"memory"`
	Available   int64        `json:"available"`
	Swap        int64        `json:"swap"`
	SwapUsed    int64        `json:"swap_used"`
	Nodes       int          `json:"numa_nodes,omitempty"`
	NodeMemory  []NodeMemory `json:"numa_memory,omitempty"`    // memory by node
	Balancing   string       `json:"numa_balancing,omitempty"` // kernel setting; 0: off
	HugePages   int64        `json:"huge_pages,omitempty"`     // reserved huge pages
	Transparent string       `json:"transparent_huge_pages,omitempty"`
}

// Versions lists the programs and libraries whose versions are facts.
func Versions() []string {
	return []string{"python", "numpy", "torch", "nccl", "cuda", "driver", "mpi"}
}

// The most processes and GPU errors in facts.
const (
	MaxBusy = 5
	MaxXids = 64
)

// Limits lists the limits that are facts.
func Limits() []string { return []string{"nofile", "memlock", "nproc"} }

// Disk is a directory and the file system that it is on.
type Disk struct {
	Name  string  `json:"name"`
	Path  string  `json:"path"`
	Size  int64   `json:"size"`
	Free  int64   `json:"free"`
	Files int64   `json:"files"`           // free inodes; -1: no limit
	Fsync float64 `json:"fsync,omitempty"` // seconds to write and sync 64 KiB
	Error string  `json:"error,omitempty"` // reason why the disk is not writable
}

// NodeMemory is the memory of a NUMA node.
type NodeMemory struct {
	Size int64 `json:"size"`
	Free int64 `json:"free"`
}

// Xid is an error of a GPU, as NVIDIA's driver numbers them.
type Xid struct {
	Bus   string `json:"bus"` // PCI address
	Code  int    `json:"code"`
	Count int    `json:"count"`
}

// Process is a process that uses a share of one core.
type Process struct {
	PID  int     `json:"pid"`
	Name string  `json:"name"`
	CPU  float64 `json:"cpu"`

	Started int64 `json:"started,omitempty"` // start time in clock ticks after boot
}

// DNS is the lookup of a host's own address.
type DNS struct {
	Address string  `json:"address,omitempty"`
	Name    string  `json:"name,omitempty"`
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

// Speed is the joint rate of all cores of a host, in the best slice of some milliseconds.
type Speed struct {
	Copy  float64 `json:"copy"`  // bytes per second, read and written
	Flops float64 `json:"flops"` // floating-point operations per second, without vector instructions
	Share float64 `json:"share"` // share of time in which the probe had the cores; 0: unknown
}

// Link is one connection between two hosts, as its first host measured it. Out is towards To.
type Link struct {
	From    int      `json:"from"`
	To      int      `json:"to"`
	Error   string   `json:"error,omitempty"`   // cause of the connection's failure
	Stalled string   `json:"stalled,omitempty"` // out, in or both: directions that block large messages only
	RTT     float64  `json:"rtt,omitempty"`     // minimum in seconds
	Out     float64  `json:"out,omitempty"`     // bytes per second
	In      float64  `json:"in,omitempty"`      // bytes per second
	Sent    [2]int64 `json:"sent"`              // segments out and in
	Resent  [2]int64 `json:"resent"`            // retransmitted segments out and in
	MTU     int      `json:"mtu,omitempty"`     // path MTU
	Offset  float64  `json:"offset,omitempty"`  // clock of To minus that of From, in seconds
	Over    string   `json:"over,omitempty"`    // interface of From
	Into    string   `json:"into,omitempty"`    // interface of To
	Back    string   `json:"back,omitempty"`    // interface by which To sends to From
	Busy    float64  `json:"busy,omitempty"`    // share of the turn for which a probe at one end waited for a core
	// Doubted links are ignored: there was no time to measure them again.
	Doubted bool `json:"doubted,omitempty"`
}

// Total sums up the links of one host. Zero is unknown.
type Total struct {
	RTT     float64 // round-trip time to most hosts in seconds
	Out, In float64 // bytes per second
	Loss    float64 // share of retransmitted segments
	Clock   float64 // seconds ahead of the others' clocks
}

// Totals sums up the links of each host, in the order of names.
func Totals(m Measured) []Total {
	totals := make([]Total, len(m.Names))
	for i, v := range (&judge{Measured: m}).views() {
		totals[i] = Total{
			RTT:   median(v.rtt),
			Out:   middle(v.out, true),
			In:    middle(v.in, true),
			Loss:  max(median(v.lossOut), median(v.lossIn)),
			Clock: median(v.offset),
		}
	}
	return totals
}
