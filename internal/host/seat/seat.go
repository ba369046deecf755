// Package seat assigns what this host has to its ranks: cores, GPUs, a port, network interfaces.
package seat

import (
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/host/topology"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/rankenv"
)

// Seat is what one rank of this host computes on.
type Seat struct {
	CPUs    topology.Set // nil: the rank is not bound
	Threads int          // OMP_NUM_THREADS; 0: the user has set it
	GPUs    gpu.Share
}

// Host is this host as ranks may use it.
type Host struct {
	Cores int // cores that ranks can keep busy
	// LacksGPUProgram and Partitioned are as in the hello.
	LacksGPUProgram, Partitioned bool
	// GPUs is a sentence about the GPUs and their assignment, and BusIDs the PCI addresses of those
	// that ranks use, none if one is not known. Assign sets both.
	GPUs   string
	BusIDs []string

	machine topology.Machine // nil until a job is bound
	// try reports whether a rank can be bound.
	try func(topology.Set) error
	// list returns the GPUs that programs may open, with the links between them if near; sent is
	// gorun-gpu, nil where it was not sent. A nil list finds no GPU.
	list    func(near bool, sent *os.File) ([]gpu.Device, error)
	sources gpu.Sources
}

// Inspect finds this host's cores and where its GPUs are listed. root is where the machine shows
// its GPUs; nil is /.
func Inspect(root fs.FS) *Host { return inspect(gpuSources(root)) }

func inspect(from gpu.Sources) *Host {
	h := &Host{Cores: topology.Cores(), try: tryAffinity, sources: from}
	h.list = func(near bool, sent *os.File) ([]gpu.Device, error) {
		from.Memory = sent
		return listGPUs(from, near, func(path string) error { return unix.Access(path, unix.R_OK|unix.W_OK) })
	}
	if from.Helper == "" && gpu.Present(from.Root) {
		h.LacksGPUProgram = true
		h.Partitioned = partitioned(from.Root)
	}
	return h
}

// tryAffinity binds a thread that ends at once.
func tryAffinity(cpus topology.Set) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		done <- topology.SetAffinity(cpus)
	}()
	return <-done
}

// Environ is the variables that tell a rank of its seat, without those that the user has set.
func (s Seat) Environ() (env []string) {
	if s.Threads != 0 {
		env = append(env, rankenv.Threads+"="+strconv.Itoa(s.Threads))
	}
	if s.GPUs.Visible != "" {
		env = append(env, rankenv.VisibleGPUs+"="+s.GPUs.Visible)
	}
	if s.GPUs.Order != "" {
		env = append(env, rankenv.GPUOrder+"="+s.GPUs.Order)
	}
	return env
}

// Assign gives every local rank of job its seat. All local ranks of an elastic process have its
// slot's. visible is what each program inherits; sent is gorun-gpu as the launcher packed it, nil
// if it was not sent.
func (h *Host) Assign(job wire.Job, visible []Visibility, sent []byte) (seats []Seat, err error) {
	if len(job.Ranks) == 0 {
		return nil, nil
	}
	if binds(job) && h.machine == nil {
		if h.machine, err = topology.Here(); err != nil {
			return nil, err
		}
	}
	if seats, err = seatsFor(job, h); err != nil {
		return nil, err
	}
	if seats, err = h.assignGPUs(job, seats, visible, sent); err != nil {
		return nil, err
	}
	if e := job.Elastic; e != nil { // the slot is bound: the rank's local number changes
		seats = slices.Repeat(seats[e.Slot:e.Slot+1], e.LocalSize)
	}
	return seats, nil
}

// Location describes a rank's seat to the launcher.
func (h *Host) Location(rank int, s Seat) wire.Placement {
	p := wire.Placement{Rank: rank, Threads: s.Threads, GPUs: s.GPUs.GPUs}
	if s.CPUs != nil {
		p.Where = h.machine.Describe(s.CPUs)
		p.CPUs = s.CPUs.String()
	}
	return p
}
