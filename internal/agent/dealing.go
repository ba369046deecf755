package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/internal/topology"
	"github.com/gorun/gorun/internal/wire"
)

const (
	gpuProgram = "gorun-gpu"
	gpuTime    = 10 * time.Second // for all programs that may be asked for GPUs
)

// gpuSources are this host's. gorun-gpu is looked for beside gorun. root is not nil in tests.
func gpuSources(root fs.FS) gpu.Sources {
	helper := ""
	if own, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(own), gpuProgram); executable(beside) {
			helper = beside
		}
	}
	from := gpu.Machine(helper)
	if root != nil {
		from.Root = root
	}
	return from
}

// listGPUs asks nobody where there is no NVIDIA driver, and the driver itself, which takes its time, only for what /proc does
// not show: NVLinks, and instances. access finds out whether a file may be read and written.
func listGPUs(from gpu.Sources, near bool, access func(path string) error) ([]gpu.Device, error) {
	if !gpu.Present(from.Root) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), gpuTime)
	defer cancel()
	if near || partitioned(from.Root) {
		if all, err := gpu.Details(ctx, from); err == nil {
			return openable(all.Devices, access), nil
		}
	}
	devices, err := gpu.List(ctx, from)
	return openable(devices, access), err
}

// partitioned reports whether there are MIG instances. Which ones, the driver must be asked.
func partitioned(root fs.FS) bool {
	instances, _ := fs.Glob(root, "proc/driver/nvidia/capabilities/gpu*/mig/gi*")
	return len(instances) > 0
}

// openable are the devices that CUDA counts: those whose file may be opened. A scheduler's control group forbids it, a
// container lacks the file. Where no file is there the driver makes them for the first program.
func openable(devices []gpu.Device, access func(path string) error) []gpu.Device {
	absent := 0
	var open []gpu.Device
	for _, d := range devices {
		var err error
		if d.Minor >= 0 {
			err = access(fmt.Sprintf("/dev/nvidia%d", d.Minor))
		}
		switch {
		case err == nil:
			open = append(open, d)
		case errors.Is(err, fs.ErrNotExist):
			absent++
		}
	}
	if absent == len(devices) {
		return devices
	}
	return open
}

// visibility is which GPUs the ranks of a program inherit.
type visibility struct {
	set            bool
	visible, order string
}

func (p program) visibility() (v visibility) {
	v.visible, v.set = p.env[rankenv.VisibleGPUs]
	v.order = p.env[rankenv.GPUOrder]
	return v
}

// inherited is which GPUs each seat's rank inherits. The slots of an elastic job have one program.
func (a *agent) inherited(seats int) []visibility {
	all := slices.Repeat([]visibility{a.progs[a.job.Ranks[0].Program].visibility()}, seats)
	if a.job.Elastic == nil {
		for _, r := range a.job.Ranks {
			all[r.LocalRank] = a.progs[r.Program].visibility()
		}
	}
	return all
}

// deal finds what every local rank gets, and says so in words. Ranks that inherit other GPUs are dealt to by themselves, and
// with auto not at all: then it is the user who deals. It is pure.
func deal(wish wire.GPUs, inherited []visibility, devices []gpu.Device) (shares []gpu.Share, words string, err error) {
	var kinds []visibility
	members := map[visibility][]int{} // local ranks
	for local, kind := range inherited {
		if members[kind] == nil {
			kinds = append(kinds, kind)
		}
		members[kind] = append(members[kind], local)
	}
	if len(kinds) > 1 && wish.PerRank == 0 {
		return nil, gpus(len(devices)) + ", which programs choose by their own " + rankenv.VisibleGPUs, nil
	}
	shares = make([]gpu.Share, len(inherited))
	have := 0
	for _, kind := range kinds {
		ask := gpu.Ask{Ranks: len(members[kind]), PerRank: wish.PerRank, Order: kind.order}
		if len(kinds) == 1 {
			ask.Listed = wish.Listed
		}
		if kind.set {
			ask.Visible = &kind.visible
		}
		dealt, err := gpu.Deal(devices, ask)
		if err != nil {
			return nil, "", err
		}
		have = max(have, dealt.Have)
		for i, s := range dealt.Shares {
			shares[members[kind][i]] = s
		}
	}
	return shares, sharesText(shares, have), nil
}

func gpus(n int) string {
	if n == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", n)
}

// sharesText is "4 GPUs, of which local rank 0 has 0,1, 1 has 2,3", cut after a few.
func sharesText(shares []gpu.Share, have int) string {
	const most = 8
	var parts []string
	for local, s := range shares {
		if s.Visible == "" {
			continue
		}
		if len(parts) == most {
			parts = append(parts, "and so on")
			break
		}
		parts = append(parts, fmt.Sprintf("%d has %s", local, strings.Join(s.GPUs, ",")))
	}
	switch {
	case have == 0:
		return ""
	case len(parts) > 0:
		return gpus(have) + ", of which local rank " + strings.Join(parts, ", ")
	}
	return gpus(have) + ", which all ranks see"
}

// sitByGPUs gives ranks their GPUs, and seats near them.
func (a *agent) sitByGPUs(seats []seat) ([]seat, error) {
	ask := a.job.GPUs
	if ask.Leave || a.own.gpus == nil {
		return seats, nil
	}
	devices, err := a.listGPUs(ask.PerRank > 0)
	if err != nil && ask.PerRank+ask.Listed > 0 {
		return nil, refuse(codeHostFailed, "see there what nvidia-smi says, or say --gpus-per-rank none", "GPUs cannot be listed: %v", err)
	}
	if err != nil {
		a.gpus = fmt.Sprintf("GPUs that cannot be listed (%v)", err)
		return seats, nil
	}
	if len(devices) == 0 && ask.PerRank+ask.Listed == 0 {
		return seats, nil
	}
	shares, words, err := deal(ask, a.inherited(len(seats)), devices)
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) {
		return nil, refuse(codeHostFailed, hinted.Hint(), "GPUs cannot be dealt: %v", err)
	}
	a.gpus, a.busIDs = words, usedGPUs(shares)
	for i, s := range shares {
		seats[i].gpus = s
	}
	// The local ranks of an elastic job change, and with auto so do their GPUs.
	if !a.job.Binding.Near || a.job.Elastic != nil && ask.PerRank == 0 || !slices.ContainsFunc(shares, func(s gpu.Share) bool { return s.Nodes != nil }) {
		return seats, nil
	}
	if a.own.machine == nil {
		if a.own.machine, err = topology.Here(); err != nil {
			return seats, nil // nobody asked for it
		}
	}
	return nearGPUs(a.own, a.job.Binding, seats), nil
}

// usedGPUs are the PCI addresses of all that ranks use; none if it is not known of each rank.
func usedGPUs(shares []gpu.Share) (ids []string) {
	for _, s := range shares {
		if s.BusIDs == nil {
			return nil
		}
		ids = append(ids, s.BusIDs...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// nearGPUs moves ranks to the NUMA nodes of their GPUs. They stay where they are, all of them, where that of one is not
// known or has too few cores for them, where there is one node only, and where the system forbids it: nobody asked for it.
func nearGPUs(h resources, b wire.Binding, seats []seat) []seat {
	sets, groups, elsewhere := make([]topology.Set, len(seats)), map[string][]int{}, false
	for i, s := range seats {
		for _, c := range h.machine {
			if slices.Contains(s.gpus.Nodes, c.Node) {
				sets[i] = append(sets[i], c.ID)
			}
		}
		slices.Sort(sets[i])
		if len(sets[i]) == 0 {
			return seats
		}
		elsewhere = elsewhere || len(sets[i]) < len(h.machine)
		groups[sets[i].String()] = append(groups[sets[i].String()], i)
	}
	if !elsewhere {
		return seats
	}
	moved := slices.Clone(seats)
	taken := map[int]int{}
	for _, members := range groups {
		part := h.machine.Only(sets[members[0]])
		cpus := slices.Repeat([]topology.Set{sets[members[0]]}, len(members))
		if b.To != "" {
			var err error
			if cpus, err = part.Bind(topology.Policy{Unit: topology.Core, Each: b.Each}, len(members)); err != nil {
				return seats
			}
		}
		for k, i := range members {
			moved[i].cpus = cpus[k]
			if b.To == "" {
				moved[i].threads = max(part.CoresOf(cpus[k])/len(members), 1)
			}
			if h.try(cpus[k]) != nil {
				return seats
			}
			for _, id := range cpus[k] {
				taken[id]++
			}
		}
	}
	for _, n := range taken {
		if b.To != "" && n > 1 { // ranks of one node and of several took the same cores
			return seats
		}
	}
	return moved
}
