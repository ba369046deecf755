// Package seat assigns what this host has to its ranks: cores, GPUs, a port, network interfaces.
package seat

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/internal/topology"
	"github.com/gorun/gorun/internal/wire"
)

// Seat is what one rank of this host computes on.
type Seat struct {
	CPUs    topology.Set // nil: the rank is not bound
	Threads int          // OMP_NUM_THREADS; 0: the user has set it
	GPUs    gpu.Share
}

// Host is this host as ranks may use it.
type Host struct {
	Cores int // that can be kept busy
	// LacksGPUProgram and Partitioned are as in the hello.
	LacksGPUProgram, Partitioned bool
	// GPUs is a sentence about the GPUs and their assignment, and BusIDs the PCI addresses of those that ranks use, none if one is
	// not known. Assign sets both.
	GPUs   string
	BusIDs []string

	machine topology.Machine // nil until a job is bound
	// try reports whether a rank can be bound.
	try func(topology.Set) error
	// list returns the GPUs that programs may open, with the links between them if near; sent is gorun-gpu, nil where it was not
	// sent. A nil list finds no GPU.
	list    func(near bool, sent *os.File) ([]gpu.Device, error)
	sources gpu.Sources
}

// Inspect finds this host's cores and where its GPUs are listed. root is where the machine shows its GPUs; nil is /.
func Inspect(root fs.FS) *Host { return inspect(gpuSources(root)) }

func inspect(from gpu.Sources) *Host {
	h := &Host{Cores: topology.Cores(), try: tryAffinity, sources: from}
	h.list = func(near bool, sent *os.File) ([]gpu.Device, error) {
		from.Memory = sent
		return listGPUs(from, near, func(path string) error { return unix.Access(path, unix.R_OK|unix.W_OK) })
	}
	if from.Helper == "" && gpu.Present(from.Root) {
		h.LacksGPUProgram, h.Partitioned = true, partitioned(from.Root)
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

// seatsFor finds the seats of all ranks of this host and checks that ranks can be bound to them.
func seatsFor(job wire.Job, h *Host) ([]Seat, error) {
	binding := job.Binding
	ranks := len(job.Ranks)
	if job.Elastic != nil {
		ranks = job.Elastic.Slots
	}
	seats, err := seats(h, binding, ranks)
	if err != nil {
		return nil, err
	}
	for i := range seats {
		if seats[i].CPUs == nil {
			break
		}
		err := h.try(seats[i].CPUs)
		if err == nil {
			continue
		}
		if !binding.IfSupported {
			return nil, wire.Refusef(wire.CodeHostFailed, "leave --bind-to out, or add :if-supported to it",
				"rank %d cannot be bound to cpus %s: %v", job.Ranks[min(i, len(job.Ranks)-1)].Rank, seats[i].CPUs, err)
		}
		unbound(seats)
		break
	}
	return seats, nil
}

func unbound(seats []Seat) {
	for i := range seats {
		seats[i].CPUs = nil
	}
}

// seats divides the host among ranks, with a thread for each core; ranks on the same cores share the threads. It is pure.
func seats(h *Host, b wire.Binding, ranks int) ([]Seat, error) {
	all := make([]Seat, ranks)
	if b.To == "" {
		for i := range all {
			all[i].Threads = max(b.Each, 1)
			if b.Each == 0 {
				all[i].Threads = max(h.Cores/ranks, 1)
			}
		}
		return all, nil
	}
	unit, known := map[string]topology.Unit{wire.BindThread: topology.Thread, wire.BindCore: topology.Core,
		wire.BindNode: topology.Node, wire.BindSocket: topology.Socket}[b.To]
	if !known {
		return nil, wire.Refusef(wire.CodeHostFailed, "", "ranks cannot be bound to %q", b.To)
	}
	bound, err := h.machine.Bind(topology.Policy{Unit: unit, Each: b.Each, Overload: b.Overload}, ranks)
	var few *topology.FewError
	switch {
	case errors.As(err, &few):
		return nil, wire.Refusef(wire.CodeHostFailed, fewHint(few, b.To), "ranks cannot be bound: %v", err)
	case err != nil:
		return nil, err
	}
	sharers := map[string]int{}
	for _, cpus := range bound {
		sharers[cpus.String()]++
	}
	for i, cpus := range bound {
		threads := h.machine.CoresOf(cpus) / sharers[cpus.String()]
		if unit > topology.Core && b.Each > 0 {
			threads = b.Each
		}
		all[i] = Seat{CPUs: cpus, Threads: max(threads, 1)}
	}
	return all, nil
}

// fewHint is the hint for too few cores to bind ranks.
func fewHint(few *topology.FewError, to string) string {
	hint := fmt.Sprintf("or say --bind-to %s:overload-allowed or --bind-to none", to)
	switch most := few.Have / few.Each; most {
	case 0:
		return "ask for fewer --cpus-per-rank, " + hint
	case 1:
		return "give the host 1 rank at most (-H host:1), " + hint
	default:
		return fmt.Sprintf("give the host %d ranks at most (-H host:%d), %s", most, most, hint)
	}
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

// Assign gives every local rank of job its seat. All local ranks of an elastic process have its slot's. visible is what
// each program inherits; sent is gorun-gpu as the launcher packed it, nil if it was not sent.
func (h *Host) Assign(job wire.Job, visible []Visibility, sent []byte) (seats []Seat, err error) {
	if job.Binding.To != "" && h.machine == nil {
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
func (h *Host) Location(rank int, s Seat) wire.Location {
	p := wire.Location{Rank: rank, Threads: s.Threads, GPUs: s.GPUs.GPUs}
	if s.CPUs != nil {
		p.CPUs, p.Where = s.CPUs.String(), h.machine.Describe(s.CPUs)
	}
	return p
}
