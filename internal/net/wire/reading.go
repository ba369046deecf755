package wire

import "time"

// MaxReading is the most bytes in a line of AskWatch.
const MaxReading = 16 << 10

// Reading is a line of an AskWatch: what one rank, or the host, has used at a time. The ranks that
// run come first, then the host.
type Reading struct {
	At   time.Duration // time on the host's monotonic clock
	Rank *RankUse      `json:",omitempty"`
	Host *HostUse      `json:",omitempty"` // set only in the last line of a reading
}

// RankUse is the use of resources by a rank and its descendants.
type RankUse struct {
	Rank      int
	PID       int
	State     string        // state letter of the rank's own process as in proc(5)
	Waits     string        `json:",omitempty"` // kernel function in which its main thread waits, if the kernel tells
	Processes int           // running processes
	Threads   int           // threads of all processes
	CPU       time.Duration // user and system time, including children that were waited for
	Memory    int64         // resident bytes; shared pages count for each process
	Read      int64         // bytes from storage since the rank's start
	Written   int64         // bytes to storage
	Ring      *RingUse      `json:",omitempty"` // nil: the rank has not joined its job by ring
}

// RingUse sums up a rank's collectives since its start.
type RingUse struct {
	Calls   int64
	Bytes   int64         // bytes of vectors
	Time    time.Duration // time in calls
	Pending time.Duration // time during which tensors of queues were pending
}

// HostUse is the use of a whole host, including programs outside the job. Numbers of bytes are sums
// since the host's start.
type HostUse struct {
	CPUs       int
	Busy       time.Duration // time of all CPUs together
	Memory     int64         // bytes
	Available  int64         // bytes available without swapping
	Read       int64         // bytes read from disks
	Written    int64
	Received   int64 // bytes received by network interfaces other than loopback
	Sent       int64
	GPUs       []GPUUse `json:",omitempty"`
	GPUProblem string   `json:",omitempty"` // why GPUs are missing; "": they are not, or there are none
}

// GPUUse is the use of one GPU.
type GPUUse struct {
	Index  int
	UUID   string `json:",omitempty"`
	Name   string
	Busy   int   // percent of recent time in which a kernel ran; -1: unknown
	Memory int64 // bytes
	Used   int64
}
