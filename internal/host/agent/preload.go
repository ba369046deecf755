package agent

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/host/seat"
	"github.com/gorun/gorun/internal/host/topology"
	"github.com/gorun/gorun/internal/host/warm"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/rankenv"
)

// Preload starts an interpreter that imports modules as the first rank of a job here would, whose
// program is Python. This process becomes a subreaper. printed is what the modules print.
func Preload(ctx context.Context, job wire.Job, modules []string) (i *warm.Interpreter, printed string, err error) {
	if err := contain.BecomeSubreaper(); err != nil {
		return nil, "", fmt.Errorf("become subreaper: %w", err)
	}
	job.GPUs = wire.GPUs{Leave: true} // no module may use one when it is imported
	s := &setup{job: job, host: seat.Inspect(nil)}
	if s.programs, err = prepare(job, os.Environ()); err == nil {
		err = s.assignSeats()
	}
	if err != nil {
		return nil, "", err
	}
	p := s.programs[job.Ranks[0].Program]
	first := p.seatOf(0)
	opts := warm.Options{
		Path:    p.path,
		Env:     withoutRank(p.rankEnv(rankenv.Rank{})),
		CPUs:    first.CPUs,
		Modules: modules,
	}
	if opts.CPUs == nil {
		if opts.CPUs, err = topology.Affinity(); err != nil {
			return nil, "", err
		}
	}
	return warm.Start(ctx, opts)
}

// withoutRank returns variables of a rank without those that tell ranks, or this process, apart.
func withoutRank(env []string) []string {
	apart := map[string]bool{wire.StartDirectory: true}
	for _, kv := range (rankenv.Rank{}).Environ() {
		name, _, _ := strings.Cut(kv, "=")
		apart[name] = true
	}
	return slices.DeleteFunc(env, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return apart[name]
	})
}
