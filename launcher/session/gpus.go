package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
)

// wantsGPUProgram reports whether a host needs gorun-gpu for a job: if it is missing there, and the
// assignment of GPUs needs the driver. It is pure.
func wantsGPUProgram(h wire.Hello, request wire.GPUs) bool {
	return h.LacksGPUProgram && !request.Leave && (request.PerRank > 0 || h.Partitioned)
}

// sendGPUProgram sends gorun-gpu and returns its size, 0 if there is none. program returns it
// compressed; nil: there is none.
func (s *Session) sendGPUProgram(program func() ([]byte, error)) (int, error) {
	if program == nil || s.foreign { // gorun-gpu is built for the launcher's architecture
		return 0, nil
	}
	packed, err := program()
	if err != nil {
		return 0, err
	}
	for piece := range slices.Chunk(packed, wire.MaxData) {
		s.Out.send(wire.TypeProgram, 0, piece)
	}
	return len(packed), nil
}

// ListGPUs returns the GPUs of the host. It sends gorun-gpu, as [Session.Prepare] does, where it is
// missing.
func (s *Session) ListGPUs(ctx context.Context, program func() ([]byte, error)) (list gpu.Inventory, err error) {
	err = s.during(ctx, func() error {
		if s.Hello.LacksGPUProgram {
			if _, err := s.sendGPUProgram(program); err != nil {
				return err
			}
		}
		return s.request(wire.TypeListGPUs, nil, wire.TypeGPUs, &list)
	})
	sanitize(&list)
	return list, err
}

// CountUnits returns how many units of each kind the host has.
func (s *Session) CountUnits(ctx context.Context) (units wire.Units, err error) {
	err = s.during(ctx, func() error { return s.request(wire.TypeCount, nil, wire.TypeUnits, &units) })
	return units, err
}

const (
	maxWarnings  = 16   // warnings of one host that are shown
	maxInstances = 64   // MIG instances of a GPU
	maxSlowdowns = 16   // reasons for low clocks of a GPU
	maxUsers     = 1024 // processes with memory on a GPU
)

// sanitize bounds what a host's inventory says, and removes control characters from it. Tables have
// a cell for each pair of its GPUs.
func sanitize(inv *gpu.Inventory) {
	if more := len(inv.Warnings) - maxWarnings; more > 0 {
		inv.Warnings = append(inv.Warnings[:maxWarnings:maxWarnings],
			fmt.Sprintf("%s left out", prose.Count(more, "more warning")))
	}
	for i, w := range inv.Warnings {
		inv.Warnings[i] = Clean(w)
	}
	inv.Devices = first(inv.Devices, maxGPUs)
	for i := range inv.Devices {
		d := &inv.Devices[i]
		d.MIG = first(d.MIG, maxInstances)
		d.Processes = first(d.Processes, maxUsers)
		if len(d.NVLinks) > maxGPUs {
			d.NVLinks = nil
		}
		if len(d.Paths) > maxGPUs {
			d.Paths = nil
		}
		for _, text := range []*string{&d.UUID, &d.BusID, &d.Name, &d.CPUs} {
			*text = Clean(*text)
		}
		if h := d.Health; h != nil {
			h.Slowdowns = first(h.Slowdowns, maxSlowdowns)
			for j, reason := range h.Slowdowns {
				h.Slowdowns[j] = gpu.Slowdown(Clean(string(reason)))
			}
		}
		for j := range d.MIG {
			d.MIG[j].UUID = Clean(d.MIG[j].UUID)
			d.MIG[j].Profile = Clean(d.MIG[j].Profile)
		}
	}
}

// first returns a copy of the first elements, so that nothing keeps the memory of the others.
func first[T any](all []T, most int) []T { return slices.Clone(all[:min(len(all), most)]) }
