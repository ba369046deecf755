package wire

import "time"

// MaxReading is the most bytes in a line of AskWatch.
const MaxReading = 16 << 10

// Reading is a line of an AskWatch: what one rank, or the host, has used at a time. The ranks that
// run come first, then the host.
type Reading struct {
	At   time.Duration // host's monotonic clock
	Rank *RankUse      `json:",omitempty"`
	Host *HostUse      `json:",omitempty"` // set in the last line of its time
}

// RankUse is what a rank and its descendants use.
type RankUse struct {
	Rank      int
	PID       int
	State     string        // a letter as in proc(5), of the rank's own process
	Waits     string        `json:",omitempty"` // kernel function in which its main thread waits, if the kernel tells
	Processes int           // that run
	Threads   int           // of all of them
	CPU       time.Duration // user and system, also of children that were waited for
	Memory    int64         // resident bytes. Pages that processes share count for each
	Read      int64         // bytes from storage since the rank's start
	Written   int64         // bytes to storage
	Ring      *RingUse      `json:",omitempty"` // nil: the rank has not joined its job by ring
}

// RingUse is what a rank's collectives add up to since its start.
type RingUse struct {
	Calls   int64
	Bytes   int64         // of vectors
	Time    time.Duration // in calls
	Pending time.Duration // in which tensors of queues were pending
}

// HostUse is what a host uses, whoever uses it. Numbers of bytes are sums since the host's start.
type HostUse struct {
	CPUs       int
	Busy       time.Duration // of all CPUs together
	Memory     int64         // bytes
	Available  int64         // of Memory, without swapping
	Read       int64         // from disks
	Written    int64
	Received   int64 // by network interfaces other than loopback
	Sent       int64
	GPUs       []GPUUse `json:",omitempty"`
	GPUProblem string   `json:",omitempty"` // why GPUs are missing; "": they are not, or there are none
}

// GPUUse is what one GPU does.
type GPUUse struct {
	Index  int
	UUID   string `json:",omitempty"`
	Name   string
	Busy   int   // percent of the last moments in which a kernel ran; -1: unknown
	Memory int64 // bytes
	Used   int64
}
