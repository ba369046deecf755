package ring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/net/secure"
)

// Group makes a Comm of the given ranks of c, numbered in the order of ranks. Only those ranks call
// it, all with the same ranks and name. A name may be used once for each c and has 1 to 200 bytes.
// Group returns when all of them have called it.
//
// The ranks meet through the job's store, with one request for each pair. Where all ranks of c take
// part, [Split] is faster.
//
// The new Comm is independent of c, as that of Split is. An error leaves c usable.
func Group(ctx context.Context, c *Comm, name string, ranks []int) (*Comm, error) {
	s := splitter{ctx: ctx, comm: c, members: slices.Clone(ranks)}
	if err := s.eligible(name); err != nil {
		return nil, err
	}
	ctx, cancel := c.within(ctx)
	defer cancel(nil)
	// Not that of a group "b" of a group "a", if the name is "a/b".
	whole := c.name + "/" + strings.NewReplacer("%", "%25", "/", "%2F").Replace(name)
	meet := meeting{
		ctx:     ctx,
		comm:    c,
		members: s.members,
		name:    "group" + whole,
	}
	part, err := s.build(whole, meet.exchange)
	if err == nil {
		_, err = meet.exchange("ready", nil)
	}
	if err != nil {
		part.Close()
		if c.life.Err() != nil {
			err = during("group", context.Cause(c.life))
		}
		return nil, fmt.Errorf("ring: group %q of ranks %v: %w", name, ranks, err)
	}
	part.startStallSampler()
	return part, nil
}

// eligible validates the name and members of a group.
func (s *splitter) eligible(name string) error {
	c := s.comm
	if name == "" || len(name) > maxGroupName {
		return fmt.Errorf("ring: group %q: a name has 1 to %d bytes", name, maxGroupName)
	}
	sorted := slices.Sorted(slices.Values(s.members))
	if len(slices.Compact(slices.Clone(sorted))) != len(sorted) || len(sorted) > 0 &&
		(sorted[0] < 0 || sorted[len(sorted)-1] >= c.Size()) {
		return fmt.Errorf("ring: group %q: ranks %v: each is from 0 to %d and comes once", name, s.members, c.Size()-1)
	}
	if !slices.Contains(s.members, c.Rank()) {
		return fmt.Errorf("ring: group %q: rank %d is not among its ranks %v: only those make it", name, c.Rank(),
			s.members)
	}
	return nil
}

const maxGroupName = 200

// meeting exchanges values among the members of a Group: each puts its value into the job's store
// and waits there for the others.
type meeting struct {
	ctx     context.Context
	comm    *Comm
	members []int
	name    string
}

func (m *meeting) exchange(what string, value []byte) ([][]byte, error) {
	key := func(rank int) string { return m.comm.rankKey(rank, m.name+"/"+what) }
	values := make([][]byte, len(m.members))
	if len(m.members) == 1 {
		values[0] = value
		return values, nil
	}
	if err := m.comm.agent.Put(m.ctx, key(m.comm.Rank()), value); err != nil {
		return nil, err
	}
	for i, rank := range m.members {
		v, err := m.comm.agent.Wait(m.ctx, key(rank))
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("timed out, and rank %d on %s has not come to it: %w", m.comm.inJob(rank),
				m.comm.host(rank), context.DeadlineExceeded)
		}
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return values, nil
}

// build makes the part of the members, who exchange values by swap.
func (s *splitter) build(name string, swap exchange) (*Comm, error) {
	c := s.comm
	self := s.self()
	part := newComm(c.life, self, c.opts)
	part.name = name
	part.cost = c.costOf(s.members)
	part.agent = c.agent
	part.key = c.key
	part.updated = c.updated
	part.record = c.record
	for _, member := range s.members {
		part.ranks = append(part.ranks, c.inJob(member))
	}
	identity := secure.Identity{
		Job:   self.Job,
		Epoch: self.Epoch,
		Rank:  self.Rank,
		Size:  self.Size,
		Key:   c.key,
		Comm:  part.name,
	}
	ctx, cancel := c.within(s.ctx)
	defer cancel(nil)
	return part, part.initError(part.join(ctx, identity, swap))
}
