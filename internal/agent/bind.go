package agent

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/internal/topology"
	"github.com/gorun/gorun/internal/wire"
)

// seat is what one rank of this host computes on.
type seat struct {
	cpus    topology.Set // what it is bound to; nil: it is not
	threads int          // OMP_NUM_THREADS; 0: not ours to set
	gpus    gpu.Share
}

// resources are the machine as ranks may use it.
type resources struct {
	cores   int              // that can be kept busy
	machine topology.Machine // nil until a job is to be bound
	// try finds out whether a rank can be bound.
	try func(topology.Set) error
	// gpus are those that programs may open, with what lies between them if that matters, as gorun-gpu knows it: sent is its
	// executable, nil where it was not sent. nil: nobody looks for any.
	gpus func(near bool, sent *os.File) ([]gpu.Device, error)
	// lacksGPUProgram and partitioned are as in the hello.
	lacksGPUProgram, partitioned bool
}

// ownResources are what the agent may use, as its ranks will.
func ownResources(from gpu.Sources) resources {
	h := resources{cores: topology.Cores(), try: tryAffinity}
	h.gpus = func(near bool, sent *os.File) ([]gpu.Device, error) {
		from.Memory = sent
		return listGPUs(from, near, func(path string) error { return syscall.Access(path, 6) })
	}
	if from.Helper == "" && gpu.Present(from.Root) {
		h.lacksGPUProgram, h.partitioned = true, partitioned(from.Root)
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

// seatsFor finds the seats of all ranks of this host, and that ranks can be bound to them.
func seatsFor(job wire.Job, h resources) ([]seat, error) {
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
		if seats[i].cpus == nil {
			break
		}
		err := h.try(seats[i].cpus)
		if err == nil {
			continue
		}
		if !binding.IfSupported {
			return nil, refuse(codeHostFailed, "leave --bind-to out, or add :if-supported to it",
				"rank %d cannot be bound to cpus %s: %v", job.Ranks[min(i, len(job.Ranks)-1)].Rank, seats[i].cpus, errno(err))
		}
		unbound(seats)
		break
	}
	return seats, nil
}

// sit gives the program the host's seats. Threads that the user has set are not ours to set.
func (p *program) sit(seats []seat) {
	p.seats = slices.Clone(seats)
	if p.threadsGiven() {
		for i := range p.seats {
			p.seats[i].threads = 0
		}
	}
}

func unbound(seats []seat) {
	for i := range seats {
		seats[i].cpus = nil
	}
}

// seats shares the host out among ranks. Threads are one a core, and ranks on the same cores share
// them. It is pure.
func seats(h resources, b wire.Binding, ranks int) ([]seat, error) {
	all := make([]seat, ranks)
	if b.To == "" {
		for i := range all {
			all[i].threads = max(b.Each, 1)
			if b.Each == 0 {
				all[i].threads = max(h.cores/ranks, 1)
			}
		}
		return all, nil
	}
	unit, known := map[string]topology.Unit{wire.BindThread: topology.Thread, wire.BindCore: topology.Core,
		wire.BindNode: topology.Node, wire.BindSocket: topology.Socket}[b.To]
	if !known {
		return nil, refuse(codeHostFailed, "", "ranks cannot be bound to %q", b.To)
	}
	bound, err := h.machine.Bind(topology.Policy{Unit: unit, Each: b.Each, Overload: b.Overload}, ranks)
	var few *topology.FewError
	switch {
	case errors.As(err, &few):
		return nil, refuse(codeHostFailed, fewHint(few, b.To), "ranks cannot be bound: %v", err)
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
		all[i] = seat{cpus: cpus, threads: max(threads, 1)}
	}
	return all, nil
}

// fewHint says what to do about too few cores for ranks bound to something.
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

// threadsGiven reports that the user has set the number of threads, here or for a container, for
// which ours would win over what a program before it sets: env OMP_NUM_THREADS=4 singularity.
func (p program) threadsGiven() bool {
	_, set := p.env[rankenv.Threads]
	if set || !p.singularity {
		return set
	}
	if slices.ContainsFunc(p.argv, func(a string) bool { return strings.Contains(a, rankenv.Threads+"=") }) {
		return true
	}
	return taken(p.env)[rankenv.Threads]
}

// seat is a rank's seat by its place on this host.
func (p program) seat(local int) seat {
	if local >= len(p.seats) {
		return seat{}
	}
	return p.seats[local]
}

// environ is what a rank is told of its seat, as far as that is ours to do.
func (s seat) environ() (env []string) {
	if s.threads != 0 {
		env = append(env, rankenv.Threads+"="+strconv.Itoa(s.threads))
	}
	if s.gpus.Visible != "" {
		env = append(env, rankenv.VisibleGPUs+"="+s.gpus.Visible)
	}
	if s.gpus.Order != "" {
		env = append(env, rankenv.GPUOrder+"="+s.gpus.Order)
	}
	return env
}

// sit gives the ranks of every program their seats.
func (a *agent) sit() (err error) {
	if a.job.Binding.To != "" && a.own.machine == nil {
		if a.own.machine, err = topology.Here(); err != nil {
			return err
		}
	}
	seats, err := seatsFor(a.job, a.own)
	if err != nil {
		return err
	}
	if seats, err = a.sitByGPUs(seats); err != nil {
		return err
	}
	if e := a.job.Elastic; e != nil { // a slot is bound, whatever the rank's number there
		seats = slices.Repeat(seats[e.Slot:e.Slot+1], e.LocalSize)
	}
	for i := range a.progs {
		a.progs[i].sit(seats)
	}
	return nil
}

// places tells the launcher of the seats.
func (a *agent) places() []wire.Place {
	places := make([]wire.Place, len(a.job.Ranks))
	for i, r := range a.job.Ranks {
		s := a.progs[r.Program].seat(r.LocalRank)
		places[i] = wire.Place{Rank: r.Rank, Threads: s.threads, GPUs: s.gpus.GPUs}
		if s.cpus != nil {
			places[i].CPUs, places[i].Where = s.cpus.String(), a.own.machine.Describe(s.cpus)
		}
	}
	return places
}
