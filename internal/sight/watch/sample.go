// Package watch collects what the ranks and hosts of a running job use. Hosts are asked only while
// somebody follows.
package watch

import "time"

// Version is the version of a Sample. It changes only if readers of an earlier version would
// misread it.
const Version = 1

// Sample is the use of a job's resources at a time. Values of a host or rank without a reading are
// 0.
type Sample struct {
	Version int       `json:"version"`
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"` // seconds since the ranks' release; 0: not yet
	Size    int       `json:"size"`    // ranks of the job
	Ranks   []Rank    `json:"ranks"`   // ranks by number
	Hosts   []Host    `json:"hosts"`   // hosts in the order of the job
}

// States of a rank beside the letters of proc(5).
const (
	Waiting = "-"     // no reading yet
	Ended   = "ended" // see Exit
	Spare   = "spare" // it waits for its first epoch
)

// Rank is a rank, with its descendants. Values without a unit of time are now, others per second
// since the last sample; those named total are sums since its start.
type Rank struct {
	Rank      int    `json:"rank"`
	Host      string `json:"host"`
	PID       int    `json:"pid,omitempty"` // process ID on the rank's host
	State     string `json:"state"`
	Waits     string `json:"waits,omitempty"` // kernel function in which the main thread waits
	Exit      *Exit  `json:"exit,omitempty"`
	Processes int    `json:"processes"`
	Threads   int    `json:"threads"`
	Spawned   bool   `json:"spawned,omitempty"` // by a rank, by MPI_Comm_spawn

	CPU      float64 `json:"cpu"` // cores: 1 is one core all the time
	CPUTotal float64 `json:"cpu_seconds_total"`
	Memory   int64   `json:"memory_bytes"` // resident bytes

	Read         float64 `json:"read_bytes_per_second"` // bytes per second from storage
	Written      float64 `json:"written_bytes_per_second"`
	ReadTotal    int64   `json:"read_bytes_total"`
	WrittenTotal int64   `json:"written_bytes_total"`

	Lines       float64 `json:"output_lines_per_second"` // lines of stdout and stderr per second
	Output      float64 `json:"output_bytes_per_second"`
	LinesTotal  int64   `json:"output_lines_total"`
	OutputTotal int64   `json:"output_bytes_total"`

	Ring *Ring `json:"ring,omitempty"` // nil: no ring, or no reading yet

	GPUs []int `json:"gpus,omitempty"` // assigned GPUs, by index in the host's list
	// GPUBusy is the mean over the rank's GPUs in percent, and GPUMemory their sum, including other
	// programs' use. nil: unknown, or no GPU is assigned.
	GPUBusy   *float64 `json:"gpu_busy_percent,omitempty"`
	GPUMemory *int64   `json:"gpu_memory_bytes,omitempty"`
}

// Ring is a rank's use of collectives.
type Ring struct {
	Calls float64 `json:"calls_per_second"` // completed calls per second
	Bytes float64 `json:"bytes_per_second"` // bytes of vectors per second
	// Share is the part of the time in which the rank was in a call, or had named tensors pending:
	// in that time it worked on collectives, or waited for other ranks. Communicators that are used
	// at the same time count together, up to 1.
	Share float64 `json:"time_ratio"`

	CallsTotal   int64   `json:"calls_total"`
	BytesTotal   int64   `json:"bytes_total"`
	TimeTotal    float64 `json:"seconds_total"`         // seconds in calls
	PendingTotal float64 `json:"pending_seconds_total"` // seconds with named tensors pending
}

// Exit is the end of a rank.
type Exit struct {
	Code    int  `json:"code"`
	Signal  int  `json:"signal,omitempty"`
	Stopped bool `json:"stopped,omitempty"` // whether gorun ended the rank
}

// Host is the use of a whole host, including programs outside the job.
type Host struct {
	Host string  `json:"host"`
	Age  float64 `json:"age_seconds"` // age of the reading in seconds; -1: no reading yet
	CPUs int     `json:"cpus"`

	CPU      float64 `json:"cpu"` // busy cores
	CPUTotal float64 `json:"cpu_seconds_total"`
	Memory   int64   `json:"memory_bytes"`
	Used     int64   `json:"memory_used_bytes"`

	Read          float64 `json:"read_bytes_per_second"` // bytes per second from disks
	Written       float64 `json:"written_bytes_per_second"`
	Received      float64 `json:"received_bytes_per_second"` // bytes per second from networks
	Sent          float64 `json:"sent_bytes_per_second"`
	ReadTotal     int64   `json:"read_bytes_total"`
	WrittenTotal  int64   `json:"written_bytes_total"`
	ReceivedTotal int64   `json:"received_bytes_total"`
	SentTotal     int64   `json:"sent_bytes_total"`

	GPUs       []GPU  `json:"gpus,omitempty"`
	GPUProblem string `json:"gpu_problem,omitempty"` // reason why GPUs are missing
}

// GPU is a GPU of a host.
type GPU struct {
	Index  int    `json:"index"`
	UUID   string `json:"uuid,omitempty"`
	Name   string `json:"name"`
	Busy   int    `json:"busy_percent"` // -1: unknown
	Memory int64  `json:"memory_bytes"`
	Used   int64  `json:"memory_used_bytes"`
}
