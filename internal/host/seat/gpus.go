package seat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/host/memexec"
	"github.com/gorun/gorun/internal/host/topology"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/rankenv"
)

const (
	gpuProgram = "gorun-gpu"
	gpuTime    = 10 * time.Second // time for all programs that list GPUs together
)

// gpuSources are this host's. The gorun-gpu beside gorun is among them if no other user can have
// put it there. Only tests set root.
func gpuSources(root fs.FS) gpu.Sources {
	helper := ""
	if own, err := os.Executable(); err == nil {
		if installed := filepath.Join(filepath.Dir(own), gpuProgram); unix.Access(installed, unix.X_OK) == nil &&
			trust.Check(installed) == nil {
			helper = installed
		}
	}
	from := gpu.Machine(helper)
	if root != nil {
		from.Root = root
	}
	return from
}

// listGPUs lists nothing without an NVIDIA driver. It asks the driver itself, which is slow, only
// for what /proc does not show: NVLinks and MIG instances. access reports whether a file may be
// read and written.
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

// partitioned reports whether a GPU has MIG instances. Only the driver can list them.
func partitioned(root fs.FS) bool {
	instances, _ := fs.Glob(root, "proc/driver/nvidia/capabilities/gpu*/mig/gi*")
	return len(instances) > 0
}

// openable lists the devices that CUDA counts: those whose file may be opened. A scheduler's
// control group may forbid it, and a container may lack the file. Where no device has a file, the
// driver makes the files for the first program.
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

// Visibility is which GPUs the ranks of a program inherit.
type Visibility struct {
	Set            bool // Visible is set, perhaps to ""
	Visible, Order string
}

// VisibleIn reads what a program with env inherits.
func VisibleIn(env map[string]string) (v Visibility) {
	v.Visible, v.Set = env[rankenv.VisibleGPUs]
	v.Order = env[rankenv.GPUOrder]
	return v
}

// inherited is which GPUs each seat's rank inherits. The slots of an elastic job have one program.
func inherited(job wire.Job, visible []Visibility, seats int) []Visibility {
	all := slices.Repeat([]Visibility{visible[job.Ranks[0].Program]}, seats)
	if job.Elastic == nil {
		for _, r := range job.Ranks {
			all[r.LocalRank] = visible[r.Program]
		}
	}
	return all
}

// assign finds the GPUs of every local rank and a sentence about them. Ranks that inherit the same
// GPUs share them; with auto, programs that inherit different ones keep them all. It is pure.
func assign(request wire.GPUs, inherited []Visibility, devices []gpu.Device) (shares []gpu.Share, words string,
	err error) {
	var kinds []Visibility
	members := map[Visibility][]int{} // local ranks
	for local, kind := range inherited {
		if members[kind] == nil {
			kinds = append(kinds, kind)
		}
		members[kind] = append(members[kind], local)
	}
	if len(kinds) > 1 && request.PerRank == 0 {
		return nil, prose.Count(len(devices), "GPU") + ", which programs choose by their own " + rankenv.VisibleGPUs,
			nil
	}
	shares = make([]gpu.Share, len(inherited))
	have := 0
	for _, kind := range kinds {
		ask := gpu.Request{Ranks: len(members[kind]), PerRank: request.PerRank, Order: kind.Order}
		if len(kinds) == 1 {
			ask.Listed = request.Listed
		}
		if kind.Set {
			ask.Visible = &kind.Visible
		}
		assigned, err := gpu.Assign(devices, ask)
		if err != nil {
			return nil, "", err
		}
		have = max(have, assigned.Have)
		for i, s := range assigned.Shares {
			shares[members[kind][i]] = s
		}
	}
	return shares, sharesText(shares, have), nil
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
		return prose.Count(have, "GPU") + ", of which local rank " + strings.Join(parts, ", ")
	}
	return prose.Count(have, "GPU") + ", which all ranks see"
}

// assignGPUs gives ranks their GPUs, and seats near them.
func (h *Host) assignGPUs(job wire.Job, seats []Seat, visible []Visibility, sent []byte) ([]Seat, error) {
	ask := job.GPUs
	if ask.Leave || h.list == nil {
		return seats, nil
	}
	devices, err := h.listGPUs(ask.PerRank > 0, sent)
	if err != nil && ask.PerRank+ask.Listed > 0 {
		return nil, wire.Refusef(wire.CodeHostFailed, "see there what nvidia-smi says, or say --gpus-per-rank none",
			"GPUs cannot be listed: %v", err)
	}
	if err != nil {
		h.GPUs = fmt.Sprintf("GPUs that cannot be listed (%v)", err)
		return seats, nil
	}
	if len(devices) == 0 && ask.PerRank+ask.Listed == 0 {
		return seats, nil
	}
	shares, words, err := assign(ask, inherited(job, visible, len(seats)), devices)
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) {
		return nil, wire.Refusef(wire.CodeHostFailed, hinted.Hint(), "GPUs cannot be assigned: %v", err)
	}
	h.GPUs = words
	h.BusIDs = usedGPUs(shares)
	for i, s := range shares {
		seats[i].GPUs = s
	}
	// The local ranks of an elastic job change, and with auto so do their GPUs.
	if !job.Binding.Near || job.Elastic != nil && ask.PerRank == 0 ||
		!slices.ContainsFunc(shares, func(s gpu.Share) bool { return s.Nodes != nil }) {
		return seats, nil
	}
	if h.machine == nil {
		if h.machine, err = topology.Here(); err != nil {
			return seats, nil // binding was not requested
		}
	}
	return nearGPUs(h, job.Binding, seats), nil
}

// usedGPUs lists the PCI addresses of all GPUs that ranks use, none if a rank's are not known.
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

// nearGPUs moves ranks to the NUMA nodes of their GPUs. No rank moves if one node is unknown or has
// too few cores, if the host has one node, or if the system forbids it: the user did not request
// it.
func nearGPUs(h *Host, b wire.Binding, seats []Seat) []Seat {
	sets := make([]topology.Set, len(seats))
	groups := map[string][]int{}
	elsewhere := false
	for i, s := range seats {
		for _, c := range h.machine {
			if slices.Contains(s.GPUs.Nodes, c.Node) {
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
			moved[i].CPUs = cpus[k]
			if b.To == "" {
				moved[i].Threads = max(part.CoresOf(cpus[k])/len(members), 1)
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
		if b.To != "" && n > 1 { // a rank of one node and one of several nodes have the same cores
			return seats
		}
	}
	return moved
}

// HasGPUs reports whether this host has NVIDIA GPUs.
func (h *Host) HasGPUs() bool { return gpu.Present(h.sources.Root) }

// Inventory lists this host's GPUs with all that the driver knows. sent is gorun-gpu, compressed,
// or nil.
func (h *Host) Inventory(ctx context.Context, sent []byte) (gpu.Inventory, error) {
	program, unreceived := memexec.Receive(gpuProgram, bytes.NewReader(sent))
	if program != nil {
		defer program.Close()
	}
	from := h.sources
	from.Memory = program
	from.Health = true
	inventory, err := gpu.Details(ctx, from)
	if unreceived != nil {
		inventory.Warnings = append(inventory.Warnings, unreceived.Error())
	}
	return inventory, err
}

// listGPUs asks gorun-gpu if it was sent. Where it cannot be run, or breaks, the other sources
// answer.
func (h *Host) listGPUs(near bool, sent []byte) ([]gpu.Device, error) {
	program, _ := memexec.Receive(gpuProgram, bytes.NewReader(sent))
	if program != nil {
		defer program.Close()
	}
	return h.list(near, program)
}
