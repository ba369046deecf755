package session

import (
	"context"
	"slices"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/wire"
)

// wantsGPUProgram reports whether a host needs gorun-gpu for a job: if it is missing there, and the assignment of GPUs needs
// the driver. It is pure.
func wantsGPUProgram(h wire.Hello, request wire.GPUs) bool {
	return h.LacksGPUProgram && !request.Leave && (request.PerRank > 0 || h.Partitioned)
}

// sendGPUProgram sends gorun-gpu and returns its size, 0 if there is none. program returns it compressed; nil: there is none.
func (s *Session) sendGPUProgram(program func() ([]byte, error)) (int, error) {
	if program == nil {
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

// ListGPUs returns the GPUs of the host, with texts as the host sent them. It sends gorun-gpu, as [Session.Prepare] does, where it is
// missing.
func (s *Session) ListGPUs(ctx context.Context, program func() ([]byte, error)) (list gpu.Inventory, err error) {
	err = s.talk(ctx, func() error {
		if s.Hello.LacksGPUProgram {
			if _, err := s.sendGPUProgram(program); err != nil {
				return err
			}
		}
		s.Out.send(wire.TypeListGPUs, 0, nil)
		f, err := s.answer()
		if err != nil {
			return err
		}
		return f.Expect(wire.TypeGPUs, &list)
	})
	return list, err
}
