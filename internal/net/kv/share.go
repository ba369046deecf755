package kv

import (
	"errors"
	"fmt"
	"strings"
)

// Share is what the ranks of one agent may hold in the job's store and in open fences. The launcher
// fails a host that takes too much there, and ranks may ask their agent for anything. Two other
// hosts may use up their shares, and this one still has its own. It is not safe for concurrent use.
type Share struct {
	stored int            // most bytes in the store
	opened int            // most open fences
	fenced int            // most bytes in open fences
	held   map[string]int // bytes in the store, by key
	bytes  int            // all of them
	fences map[string]int // bytes in open fences, by name
	posted int            // all of them
}

// Shares of a host.
const (
	hostBytes      = maxBytes / 8
	hostFences     = maxOpen / 4
	hostFenceBytes = maxFenceBytes / 4
)

// NewShare returns the share of one of so many agents of a host.
func NewShare(agents int) *Share {
	agents = max(agents, 1)
	return &Share{
		stored: hostBytes / agents,
		opened: max(hostFences/agents, 1),
		fenced: max(hostFenceBytes/agents, MaxFence),
		held:   map[string]int{},
		fences: map[string]int{},
	}
}

var (
	errShare  = errors.New("the ranks of this host have no more room in the job's store")
	errFences = errors.New("too many fences of this host are open: ranks are awaited there")
)

// Put records that a value is put into the store, or returns an error if it may not be. Each byte
// of a key that is no UTF-8 has three in a message. An answer takes the room of the host that has
// asked.
func (s *Share) Put(key string, value []byte) error {
	key = string([]rune(key))
	if err := CheckSize(key, value); err != nil {
		return err
	}
	if _, _, is := pairOf(answers, key); is {
		return nil
	}
	cost := costOf(key, value)
	grows := cost - s.held[key]
	if grows > 0 && s.bytes+grows > s.stored {
		return fmt.Errorf("put %.40q: %w (%d keys, %d bytes)", key, errShare, len(s.held), s.bytes)
	}
	s.held[key] = cost
	s.bytes += grows
	return nil
}

// Got records that a value has come. An answer has taken the place of its question.
func (s *Share) Got(key string) {
	if rest, is := strings.CutPrefix(key, answers); is {
		s.forget(questions + rest)
	}
}

// Begin records that an epoch begins: the store drops what earlier ones have put, and no fence is
// open.
func (s *Share) Begin(epoch int) {
	for key := range s.held {
		if IsOver(key, epoch) {
			s.forget(key)
		}
	}
	clear(s.fences)
	s.posted = 0
}

func (s *Share) forget(key string) {
	s.bytes -= s.held[key]
	delete(s.held, key)
}

// Post records that ranks post values to a fence, or returns an error if they may not.
func (s *Share) Post(fence string, values map[int][]byte) error {
	size, err := sizeOf(fence, values)
	if err != nil {
		return err
	}
	if _, open := s.fences[fence]; !open && len(s.fences) >= s.opened || s.posted+size > s.fenced {
		return errFences
	}
	s.fences[fence] += size
	s.posted += size
	return nil
}

// End records the end of a fence.
func (s *Share) End(fence string) {
	s.posted -= s.fences[fence]
	delete(s.fences, fence)
}
