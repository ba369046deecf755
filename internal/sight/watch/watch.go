package watch

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
)

// Place is a host of a job, and the ranks planned on it.
type Place struct {
	Host  string `json:"host"`
	Ranks []int  `json:"ranks"`
}

// Agent is the agent of a host, or of one process of an elastic job. Agents are comparable.
type Agent interface {
	Index() int                   // position of the agent among the job's agents
	Host() string                 // the host's name
	Began(rank int) bool          // whether a rank is the agent's, and was started
	RankNow(rank int) int         // current number of a rank of the agent
	Spare() bool                  // whether the process waits for its first epoch
	Placements() []wire.Placement // placements of the agent's ranks
	// Readings passes lines of [wire.Reading] to took, in pieces, until the readings or ctx end, or
	// took fails.
	Readings(ctx context.Context, every time.Duration, took func(data []byte) error) error
}

// Watch follows one job. It is safe for concurrent use.
type Watch struct {
	agents func() []Agent // agents with running ranks
	size   int
	places []Place // places of a job of fixed ranks; an elastic job's change
	lines  lines
	over   chan struct{}

	mu      sync.Mutex
	started time.Time
	exits   map[int]Exit
	closed  bool
}

// New returns a watch of a job. agents lists those whose ranks run; places are empty for an
// elastic job.
func New(agents func() []Agent, size int, places []Place) *Watch {
	return &Watch{
		agents: agents,
		size:   size,
		places: places,
		over:   make(chan struct{}),
		exits:  map[int]Exit{},
	}
}

// Output counts a piece of a rank's output.
func (w *Watch) Output(rank int, data []byte) { w.lines.add(rank, data) }

// Started records that the ranks were released.
func (w *Watch) Started() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started.IsZero() {
		w.started = time.Now()
	}
}

// Exited records the end of a rank.
func (w *Watch) Exited(rank int, how Exit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.exits[rank] = how
}

func (w *Watch) hasExited(rank int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ended := w.exits[rank]
	return ended
}

// Close ends all followers after a last sample.
func (w *Watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		close(w.over)
	}
}

const (
	// settleTime bounds the wait for the first rates.
	settleTime = 5 * time.Second
	// lookTime is the interval of checks for new hosts.
	lookTime = time.Second / 2
)

// Follow calls emit with a sample after each interval, until ctx or the job ends, or emit fails.
// The first sample comes as soon as all hosts have told enough for rates, and the last with the end
// of the job. every is called again and again with the time since the start.
func (w *Watch) Follow(ctx context.Context, every func(since time.Duration) time.Duration,
	emit func(Sample) error) error {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{watch: w, feeds: map[Agent]*feed{}, more: make(chan struct{}, 1)}
	defer f.wg.Wait()
	defer cancel()
	f.output.fill(w.rows(), &w.lines, time.Now())
	var due time.Time
	for began := time.Now(); ; {
		since := time.Since(began)
		pace := every(since)
		f.join(ctx, pace)
		if due.IsZero() && (f.settled() || since > settleTime) {
			due = time.Now()
		}
		wait := lookTime
		more := f.more
		if !due.IsZero() {
			if time.Now().Before(due) {
				wait = min(wait, time.Until(due))
				more = nil
			} else if err := emit(f.sample()); err != nil {
				return err
			} else {
				due = time.Now().Add(pace)
				continue
			}
		}
		select {
		case <-time.After(wait):
		case <-more:
		case <-w.over:
			return emit(f.sample())
		case <-ctx.Done():
			return nil
		}
	}
}

// follower joins the readings of all agents for one reader.
type follower struct {
	watch  *Watch
	output rater
	wg     sync.WaitGroup
	more   chan struct{} // holds an element when there is another reading

	mu    sync.Mutex
	feeds map[Agent]*feed
}

// join starts to read new agents, and lowers the rate of agents that should report less often.
func (f *follower) join(ctx context.Context, every time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.watch.agents()
	for agent, one := range f.feeds {
		if !slices.Contains(now, agent) {
			one.cancel()
			delete(f.feeds, agent)
		}
	}
	for _, agent := range now {
		one := f.feeds[agent]
		if one == nil {
			one = newFeed(agent)
			f.feeds[agent] = one
		} else if one.over || one.every == every {
			continue
		} else {
			one.cancel()
		}
		one.every = every
		var own context.Context
		own, one.cancel = context.WithCancel(ctx)
		f.wg.Go(func() {
			// The error is dropped: the age of the host's rows shows it.
			_ = one.run(own, every, func(r *reading) { f.took(one, r) })
			f.mu.Lock()
			defer f.mu.Unlock()
			one.over = one.over || own.Err() == nil
		})
	}
}

func (f *follower) took(one *feed, r *reading) {
	f.mu.Lock()
	one.prev = one.last
	one.last = r
	f.mu.Unlock()
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// settled reports whether every agent has reported enough for rates.
func (f *follower) settled() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.feeds {
		if one.prev == nil && !one.over {
			return false
		}
	}
	return true
}

// rows returns the ranks that were planned, and how those ended that have.
func (w *Watch) rows() (ranks []Rank) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.places {
		for _, n := range p.Ranks {
			r := Rank{Rank: n, Host: p.Host, State: Waiting}
			if how, ended := w.exits[n]; ended {
				r.State = Ended
				r.Exit = &how
			}
			ranks = append(ranks, r)
		}
	}
	slices.SortFunc(ranks, func(a, b Rank) int { return cmp.Compare(a.Rank, b.Rank) })
	return ranks
}

func (f *follower) sample() Sample {
	w := f.watch
	now := time.Now()
	s := Sample{
		Version: Version,
		At:      now,
		Size:    w.size,
		Ranks:   w.rows(),
		Hosts:   []Host{},
	}
	w.mu.Lock()
	if !w.started.IsZero() {
		s.Seconds = now.Sub(w.started).Seconds()
	}
	w.mu.Unlock()
	for _, p := range w.places {
		s.Hosts = append(s.Hosts, Host{Host: p.Host, Age: -1})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, agent := range slices.SortedFunc(maps.Keys(f.feeds), func(a, b Agent) int {
		return cmp.Compare(a.Index(), b.Index())
	}) {
		if one := f.feeds[agent]; one.last != nil {
			s.add(one, now, len(w.places) == 0, w.hasExited)
		}
	}
	slices.SortStableFunc(s.Ranks, func(a, b Rank) int { return cmp.Compare(a.Rank, b.Rank) })
	f.output.fill(s.Ranks, &w.lines, now)
	return s
}

// add fills in an agent's report. Ranks of an elastic job and spawned ranks are not planned. A host
// may go on to tell of tens of thousands of spawned ranks that have ended.
func (s *Sample) add(f *feed, now time.Time, elastic bool, hasExited func(rank int) bool) {
	name := f.agent.Host()
	i := slices.IndexFunc(s.Hosts, func(h Host) bool { return h.Host == name })
	if i < 0 {
		s.Hosts = append(s.Hosts, Host{Host: name, Age: -1})
		i = len(s.Hosts) - 1
	}
	if s.Hosts[i].Age < 0 { // other agents of the host report the same
		s.Hosts[i].fill(f.prev, f.last, now)
	}
	for number := range f.last.ranks {
		spawned := !elastic && number >= s.Size && f.agent.Began(number) && !hasExited(number)
		if elastic || spawned {
			s.Ranks = append(s.Ranks, Rank{Rank: f.agent.RankNow(number), Host: name, Spawned: spawned})
			s.Ranks[len(s.Ranks)-1].fill(f, number)
			if f.agent.Spare() {
				s.Ranks[len(s.Ranks)-1].State = Spare
			}
		} else if at, known := slices.BinarySearchFunc(s.Ranks, number, func(r Rank, n int) int {
			return cmp.Compare(r.Rank, n)
		}); known && s.Ranks[at].Exit == nil {
			s.Ranks[at].fill(f, number)
		}
	}
}
