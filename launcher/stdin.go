package launcher

import (
	"github.com/gorun/gorun/launcher/session"
)

// StdinAll as Options.StdinRank gives the input to every rank.
const StdinAll = -1

// inputOf lists a host's ranks that read standard input.
func (o *Options) inputOf(h *PlannedHost) (ranks []int) {
	for _, r := range h.Ranks {
		if o.Stdin != nil && (o.StdinRank == StdinAll || o.StdinRank == r.Rank) {
			ranks = append(ranks, r.Rank)
		}
	}
	return ranks
}

// openInput begins to carry standard input to the hosts that have a rank which reads it.
func (j *job) openInput() {
	var readers []*session.Session
	for _, s := range j.sessions {
		if s.Input != nil {
			readers = append(readers, s)
		}
	}
	if len(readers) > 0 {
		go session.FeedStdin(j.opts.Stdin, readers) // ends with Stdin, which is the caller's
	}
}
