package session

import (
	"slices"

	"github.com/gorun/gorun/internal/wire"
)

// wantsGPUProgram reports whether a host needs gorun-gpu for a job: if it is missing there, and the assignment of GPUs needs
// the driver. It is pure.
func wantsGPUProgram(h wire.Hello, request wire.GPUs) bool {
	return h.LacksGPUProgram && !request.Leave && (request.PerRank > 0 || h.Partitioned)
}

// sendGPUProgram sends gorun-gpu to the agent if the job needs it. Without it GPUs are assigned by /proc.
func (s *Session) sendGPUProgram(host string, request wire.GPUs, program func() ([]byte, error), trace func(format string, args ...any)) {
	if program == nil || !wantsGPUProgram(s.Hello, request) {
		return
	}
	packed, err := program()
	if err != nil {
		trace("%s: gorun-gpu is not sent: %v", host, err)
		return
	}
	for piece := range slices.Chunk(packed, wire.MaxData) {
		s.Out.send(wire.TypeProgram, 0, piece)
	}
	if len(packed) > 0 {
		trace("%s: sent gorun-gpu: %d bytes", host, len(packed))
	}
}
