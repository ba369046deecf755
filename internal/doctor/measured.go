package doctor

import "github.com/gorun/gorun/gpu"

// Measured is what an examination found out. Hosts and links are in no order; links name hosts by
// their index in Names.
type Measured struct {
	Names []string        `json:"names"`
	Hosts map[string]Host `json:"hosts"`
	Links []Link          `json:"links,omitempty"`
}

// Host is what is known of one host. Nil parts were not measured.
type Host struct {
	Login    *Login `json:"login,omitempty"`
	Facts    *Facts `json:"facts,omitempty"`
	Speed    *Speed `json:"speed,omitempty"`
	Finished bool   `json:"finished"` // its probe came to its end

	GPUs       []gpu.Device `json:"gpus,omitempty"`
	GPUProblem string       `json:"gpu_problem,omitempty"` // why their health is unknown

	Error string `json:"error,omitempty"` // why it could not be examined
	Hint  string `json:"hint,omitempty"`
}

// Login is what logging in to a host by SSH was like.
type Login struct {
	Seconds float64 `json:"seconds"`         // until a command could run
	Noise   string  `json:"noise,omitempty"` // the beginning of what its start files print

	HostKey    string `json:"host_key,omitempty"`    // type of the host's key, such as ssh-ed25519
	UserKey    string `json:"user_key,omitempty"`    // type of the user's key that it took
	Offered    int    `json:"offered,omitempty"`     // keys offered until it took one
	OneSession bool   `json:"one_session,omitempty"` // a second session in a connection is refused
}

// Facts are what a host says about itself. Sizes are in bytes and times in seconds; zero is
// unknown, except where a field says otherwise.
type Facts struct {
	Hostname    string            `json:"hostname"`
	Machine     string            `json:"machine,omitempty"` // the same on all hosts of one machine
	Kernel      string            `json:"kernel"`
	Libc        string            `json:"libc,omitempty"`
	CPU         string            `json:"cpu,omitempty"`
	Cores       int               `json:"cores"`           // that the process may run on
	Quota       float64           `json:"quota,omitempty"` // cores by the cgroup's CPU quota; 0: no quota
	MHz         float64           `json:"mhz,omitempty"`
	Governor    string            `json:"governor,omitempty"`
	Throttles   int64             `json:"throttles,omitempty"` // thermal throttle events while the host was examined
	Steal       float64           `json:"steal"`               // share of CPU time that the hypervisor took, 0 to 1
	Load        float64           `json:"load"`                // runnable processes per core, over a minute
	Memory      int64             `json:"memory"`
	Available   int64             `json:"available"`
	Swap        int64             `json:"swap"`
	SwapUsed    int64             `json:"swap_used"`
	Nodes       int               `json:"numa_nodes,omitempty"`
	NodeMemory  []NodeMemory      `json:"numa_memory,omitempty"`    // by node
	Balancing   string            `json:"numa_balancing,omitempty"` // of the kernel: 0 is off
	HugePages   int64             `json:"huge_pages,omitempty"`     // reserved
	Transparent string            `json:"transparent_huge_pages,omitempty"`
	Ptrace      string            `json:"ptrace_scope,omitempty"`
	Shm         Disk              `json:"shm"`
	Disks       []Disk            `json:"disks,omitempty"` // home, tmp and cache
	Limits      map[string]uint64 `json:"limits"`          // nofile, memlock, nproc: the soft limits
	Infiniband  bool              `json:"infiniband,omitempty"`
	Versions    map[string]string `json:"versions,omitempty"` // python, torch, nccl, cuda, driver, mpi
	Unasked     bool              `json:"unasked,omitempty"`  // the host was too slow to say all versions and limits
	NVIDIA      bool              `json:"nvidia,omitempty"`   // the kernel drives GPUs
	Xids        []Xid             `json:"xids,omitempty"`     // errors of GPUs in the kernel's log, if it may be read
	// processes outside this job that use a core or a large part of it
	Busy []Process `json:"busy,omitempty"`
	DNS  DNS       `json:"dns"`
}

// Disk is a directory and the file system that it is on.
type Disk struct {
	Name  string  `json:"name"`
	Path  string  `json:"path"`
	Size  int64   `json:"size"`
	Free  int64   `json:"free"`
	Files int64   `json:"files"`           // inodes that are left; -1: without a limit
	Fsync float64 `json:"fsync,omitempty"` // to write and sync 64 KiB
	Error string  `json:"error,omitempty"` // why it cannot be written to
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

	Started int64 `json:"started,omitempty"` // clock ticks after the machine
}

// DNS is the lookup of a host's own address.
type DNS struct {
	Address string  `json:"address,omitempty"`
	Name    string  `json:"name,omitempty"`
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

// Speed is what all cores of a host do together, in the best slice of some milliseconds.
type Speed struct {
	Copy  float64 `json:"copy"`  // bytes per second, read and written
	Flops float64 `json:"flops"` // floating-point operations per second, without vector instructions
	Share float64 `json:"share"` // part of the time in which the probe had the cores; 0: unknown
}

// Link is one connection between two hosts, as its first host measured it. Out is towards To.
type Link struct {
	From    int      `json:"from"`
	To      int      `json:"to"`
	Error   string   `json:"error,omitempty"`   // the connection failed
	Stalled string   `json:"stalled,omitempty"` // out, in or both: small messages pass, and no byte of large ones
	RTT     float64  `json:"rtt,omitempty"`     // the least, in seconds
	Out     float64  `json:"out,omitempty"`     // bytes per second
	In      float64  `json:"in,omitempty"`      //
	Sent    [2]int64 `json:"sent"`              // segments out and in
	Resent  [2]int64 `json:"resent"`            // of them retransmitted
	MTU     int      `json:"mtu,omitempty"`     // path MTU
	Offset  float64  `json:"offset,omitempty"`  // clock of To minus that of From, in seconds
	Over    string   `json:"over,omitempty"`    // interface of From
	Into    string   `json:"into,omitempty"`    // interface of To
	Back    string   `json:"back,omitempty"`    // interface by which To sends to From
	Busy    float64  `json:"busy,omitempty"`    // part of its turn for which a probe at one end waited for a core
	// Doubted links say nothing: there was no time to measure them again.
	Doubted bool `json:"doubted,omitempty"`
}
