package ring

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/ring/internal/engine"
)

// Split divides c into parts. All ranks of c call it. Ranks with the same color form a new Comm,
// numbered by key and then by their rank in c. A rank with a negative color gets nil.
//
// Calls on the new Comm and on c are independent and may run at the same time. The new Comm ends
// with c; close it before c.
func Split(ctx context.Context, c *Comm, color, key int) (*Comm, error) {
	part, err := split(ctx, c, color, key)
	if part != nil {
		part.startStallSampler()
	}
	return part, err
}

// split is Split without stall reports for the part.
func split(ctx context.Context, c *Comm, color, key int) (*Comm, error) {
	s := splitter{ctx: ctx, comm: c, color: color}
	if err := s.findMembers(key); err != nil {
		return nil, err
	}
	part, err := s.make()
	// what broke c broke the link
	if ferr := s.finish(err); err == nil || errors.As(err, new(*engine.LinkError)) && c.failure() != nil {
		err = ferr
	}
	if err != nil || color < 0 {
		part.Close()
		return nil, during("split", err)
	}
	return part, nil
}

// splitter is one rank's state in a Split. The members of a part exchange values in rounds among
// all ranks of comm, as many as the slowest part needs. In each round every rank reports whether it
// has finished.
type splitter struct {
	ctx     context.Context
	comm    *Comm
	color   int
	members []int // ranks in comm, by rank in the part
	serial  int   // 1-based number of the Split of comm
}

// findMembers finds the members of this rank's part.
func (s *splitter) findMembers(key int) error {
	c := s.comm
	all := make([]int64, 2*c.Size())
	if err := AllGather(s.ctx, c, all, []int64{int64(s.color), int64(key)}); err != nil {
		return err
	}
	for rank := range c.Size() {
		if all[2*rank] == int64(s.color) && (s.color >= 0 || rank == c.Rank()) {
			s.members = append(s.members, rank)
		}
	}
	slices.SortStableFunc(s.members, func(a, b int) int { return int(min(1, max(-1, all[2*a+1]-all[2*b+1]))) })
	c.calls.Lock()
	defer c.calls.Unlock()
	c.calls.splits++
	s.serial = c.calls.splits
	return nil
}

// make builds the part. A rank with a negative color gets a temporary part of its own.
func (s *splitter) make() (*Comm, error) {
	return s.build(fmt.Sprintf("%s/%d.%d", s.comm.name, s.serial, s.color), s.exchange)
}

// self returns this rank's description in its part.
func (s *splitter) self() rankenv.Rank {
	p := s.comm.self
	p.Rank = slices.Index(s.members, s.comm.Rank())
	p.Size = len(s.members)
	var hosts []string // ordered by their first rank
	local := map[string]int{}
	for rank, member := range s.members {
		host := s.comm.host(member)
		if local[host] == 0 {
			hosts = append(hosts, host)
		}
		if rank == p.Rank {
			p.LocalRank = local[host]
		}
		local[host]++
	}
	p.LocalSize = local[p.Host]
	p.CrossRank = 0
	p.CrossSize = 0
	for _, host := range hosts {
		if local[host] <= p.LocalRank {
			continue
		}
		if host == p.Host {
			p.CrossRank = p.CrossSize
		}
		p.CrossSize++
	}
	return p
}

// maxSaid limits the bytes that a rank sends in a round, as in a fence.
const maxSaid = 64 << 10

// Progress of a rank in a round.
const (
	working int64 = iota
	through
	failed
)

// exchange implements the exchange of a part by a round among all ranks.
func (s *splitter) exchange(_ string, value []byte) ([][]byte, error) {
	_, values, err := s.round(working, value)
	return values, err
}

// finish takes part in rounds until all ranks have finished. It returns an error if one has failed.
func (s *splitter) finish(err error) error {
	word := through
	if err != nil {
		word = failed
	}
	for {
		words, _, err := s.round(word, nil)
		if err != nil {
			return err
		}
		if rank := slices.Index(words, failed); rank >= 0 && !slices.Contains(words, working) {
			return fmt.Errorf("ring: split: rank %d on %s could not join its part", rank, s.comm.host(rank))
		}
		if !slices.Contains(words, working) {
			return nil
		}
	}
}

// round sends a progress word to all ranks of comm, and a value to the members of this rank's part.
func (s *splitter) round(word int64, value []byte) (words []int64, values [][]byte, err error) {
	c := s.comm
	heads := make([]int64, 2*c.Size())
	if err := AllGather(s.ctx, c, heads, []int64{word, int64(len(value))}); err != nil {
		return nil, nil, err
	}
	lengths := make([]int, c.Size())
	at := make([]int, c.Size()+1)
	for rank := range c.Size() {
		words = append(words, heads[2*rank])
		if n := heads[2*rank+1]; n < 0 || n > maxSaid {
			return nil, nil, fmt.Errorf("ring: split: rank %d on %s says that it tells %d bytes, and at most %d can "+
				"be: run the same build on all ranks", rank, c.host(rank), n, maxSaid)
		}
		lengths[rank] = int(heads[2*rank+1])
		at[rank+1] = at[rank] + lengths[rank]
	}
	all := make([]byte, at[c.Size()])
	if err := AllGatherV(s.ctx, c, all, value, lengths); err != nil {
		return nil, nil, err
	}
	for _, rank := range s.members {
		values = append(values, all[at[rank]:at[rank+1]])
	}
	return words, values, nil
}
