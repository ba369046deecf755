package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/launcher/plan"
)

// NoteTime is how long ranks wait in MPI_Init for others before the user is told.
const NoteTime = 10 * time.Second

// Startup follows which ranks have called MPI_Init, until all have. It is not safe for concurrent
// use.
type Startup struct {
	plan    plan.Plan
	limit   time.Duration // 0: none
	entered map[int]bool
	first   time.Duration // when the first rank was seen to wait
	waiter  string        // that rank and its host, which says so
	said    bool
	over    bool
}

// NewStartup returns the start-up of a plan's ranks. It fails if a rank calls MPI_Init later than
// limit after the first one; 0 is no limit.
func NewStartup(plan plan.Plan, limit time.Duration) *Startup {
	return &Startup{plan: plan, limit: limit, entered: map[int]bool{}}
}

// Entered records that ranks have called MPI_Init. Agents report that only if the start-up is slow.
func (s *Startup) Entered(ranks []int, now time.Duration) {
	if len(s.entered) == 0 && len(ranks) > 0 {
		s.first = now
		s.waiter = s.where(ranks[0])
	}
	for _, rank := range ranks {
		s.entered[rank] = true
	}
}

// where names a rank and its host.
func (s *Startup) where(rank int) string {
	for _, h := range s.plan.Hosts {
		if h.Has(rank) {
			return fmt.Sprintf("rank %d on %s", rank, h.Name)
		}
	}
	return fmt.Sprintf("rank %d", rank)
}

// Fenced records that a fence has ended. The first one of MPI ends the start-up.
func (s *Startup) Fenced(name string) { s.over = s.over || wire.IsMPIFence(name) }

// Look returns what the user should know of the start-up at time now, or "", and the event that
// ends the job because a rank is late, or nil.
func (s *Startup) Look(now time.Duration) (note string, late *RankLate) {
	if s.over || len(s.entered) == 0 {
		return "", nil
	}
	missing := s.missing()
	waited := now - s.first
	if len(missing) == 0 { // every rank has called MPI_Init
		return "", nil
	}
	var names []string
	for _, h := range missing {
		names = append(names, h.RankList()+" on "+h.Name)
	}
	who := prose.List(names)
	switch {
	case s.limit > 0 && waited >= s.limit:
		s.over = true
		return "", &RankLate{missing[0].Ranks[0].Rank, &LateError{who, s.waiter, s.limit}}
	case !s.said && waited >= NoteTime:
		s.said = true
		return fmt.Sprintf("%s has waited %v in MPI_Init for %s", s.waiter, waited.Round(time.Second), who), nil
	}
	return "", nil
}

// missing returns the hosts with ranks that have not called MPI_Init, each with only those ranks.
func (s *Startup) missing() (hosts []plan.Host) {
	for _, h := range s.plan.Hosts {
		h.Ranks = slices.DeleteFunc(slices.Clone(h.Ranks), func(r plan.Rank) bool { return s.entered[r.Rank] })
		if len(h.Ranks) > 0 {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// LateError reports ranks that did not call MPI_Init in time. It names the first rank that did,
// too: only its host says so, which may be wrong.
type LateError struct {
	Who   string // "rank 3 on f1, ranks 4-7 on f2"
	After string // "rank 0 on f1"
	Limit time.Duration
}

func (e *LateError) Error() string {
	return fmt.Sprintf("%s did not call MPI_Init within %v after %s (--start-timeout)", e.Who, e.Limit, e.After)
}

// NotSpawnedError reports a rank that was to be spawned on a host where all others had ended.
type NotSpawnedError struct {
	Rank int
	Host string
}

func (e *NotSpawnedError) Error() string {
	return fmt.Sprintf("rank %d, which was spawned, did not start: the other ranks of %s had ended", e.Rank, e.Host)
}
