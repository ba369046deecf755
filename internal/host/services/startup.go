package services

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
)

// slowStart is how long a start-up of MPI may take before the launcher learns which ranks have
// called MPI_Init.
const slowStart = time.Second

// startup follows which ranks of this host have called MPI_Init, until all ranks of the job have.
// It is safe for concurrent use.
type startup struct {
	send  func(wire.Type, any) // sends without waiting
	ranks int                  // number of ranks of this host

	mu      sync.Mutex
	over    bool // all ranks have called it, or the job is over
	slow    bool // the start-up takes long: each change is reported to the launcher
	entered []int
	ended   []int // ranks that ended without a call
	lost    bool  // one of ended is reported
	timer   *time.Timer
}

func newStartup(job wire.Job, send func(wire.Type, any)) *startup {
	return &startup{send: send, ranks: len(job.Ranks), over: job.Elastic != nil}
}

// enter records that a rank has called MPI_Init.
func (s *startup) enter(rank int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || slices.Contains(s.entered, rank) {
		return
	}
	s.entered = append(s.entered, rank)
	if s.timer == nil {
		s.timer = time.AfterFunc(slowStart, s.late)
	}
	s.report()
	s.check()
}

// late begins to inform the launcher.
func (s *startup) late() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = true
	s.report()
}

func (s *startup) report() {
	if s.slow && !s.over {
		s.send(wire.TypeEntered, wire.Entered{Ranks: slices.Clone(s.entered)})
	}
}

func (s *startup) rankEnded(rank int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over && !slices.Contains(s.entered, rank) {
		s.ended = append(s.ended, rank)
		s.check()
	}
}

// check reports a rank that has ended before MPI_Init when another one waits there: libpmix does
// not say that ranks of one host wait.
func (s *startup) check() {
	if len(s.entered) > 0 && len(s.ended) > 0 && !s.lost {
		s.lost = true
		rank := s.ended[0]
		waiter := slices.Min(s.entered)
		s.send(wire.TypeLost, wire.Lost{
			By:      rank,
			Rank:    rank,
			Cause:   fmt.Sprintf("it ended before MPI_Init, where rank %d waited for it", waiter),
			Awaited: true,
			Waiter:  waiter,
		})
	}
}

func (s *startup) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
	}
}
