package session

import (
	"slices"

	"github.com/gorun/gorun/internal/wire"
)

// wantsGPUProgram reports whether a host is to be sent gorun-gpu for a job: where it is missing, and GPUs are dealt by what
// only the driver knows. It is pure.
func wantsGPUProgram(h wire.Hello, wish wire.GPUs) bool {
	return h.LacksGPUProgram && !wish.Leave && (wish.PerRank > 0 || h.Partitioned)
}

// sendGPUProgram sends the agent gorun-gpu if it is of use for the job. Without it GPUs are dealt by what /proc shows.
func (s *Session) sendGPUProgram(host string, wish wire.GPUs, program func() ([]byte, error), trace func(format string, args ...any)) {
	if program == nil || !wantsGPUProgram(s.Hello, wish) {
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
