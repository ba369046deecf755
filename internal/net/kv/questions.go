package kv

import (
	"fmt"
	"strconv"
	"strings"
)

// Hosts of a job ask each other by keys of the store. Only the host that asks puts a question, and
// only the host that is asked puts the answer.
const (
	questions = "pmix/question/"
	answers   = "pmix/answer/"
	askers    = "pmix/asker/"
)

// MaxQuestion is the most bytes of a question. The host that is asked keeps some hundreds.
const MaxQuestion = 1 << 10

// QuestionKey is the key of the n-th question of one host to another, by their indices.
func QuestionKey(of, by, n int) string { return pairKey(questions, of, by, n) }

// AnswerKey is the key of the answer to a question.
func AnswerKey(of, by, n int) string { return pairKey(answers, of, by, n) }

// AskerKey is the key of the index of the n-th host that has asked another, from 1. So a host waits
// for the questions of those that have asked, and not of all. Only the store puts it.
func AskerKey(of, n int) string { return fmt.Sprintf("%s%d/%d", askers, of, n) }

func pairKey(prefix string, of, by, n int) string {
	return fmt.Sprintf("%s%d/%d/%d", prefix, of, by, n)
}

// pairOf returns the hosts of a key that begins with a prefix; -1 for one that QuestionKey and
// AnswerKey do not return.
func pairOf(prefix, key string) (of, by int, begins bool) {
	rest, begins := strings.CutPrefix(key, prefix)
	numbers := strings.Split(rest, "/")
	of, err1 := strconv.Atoi(numbers[0])
	if !begins || len(numbers) != 3 || err1 != nil {
		return -1, -1, begins
	}
	by, err2 := strconv.Atoi(numbers[1])
	if err2 != nil {
		return -1, -1, true
	}
	return of, by, true
}

// Host is a host of a job, or a process of an elastic one, that uses its store.
type Host struct {
	Name  string
	Index int
	Epoch int // epoch in which it is, 0 in a job without epochs
	// Owns reports whether a rank of that epoch is the host's own; nil: none is.
	Owns func(rank int) bool
}

// PutBy is Put for a host, which puts no name of another host or of its ranks. One of a rank in
// another epoch than the host's is not kept: nobody reads it. An answer takes the place of its
// question, and counts against the host that has asked: one that asks without end could use up what
// the others may hold otherwise. It is empty if that host holds too much, and nothing is kept of an
// answer to no question.
func (s *Store) PutBy(host Host, key string, value []byte) error {
	switch o := ownerOf(key); {
	case o.kind == theStore:
		return fmt.Errorf("put %.40q: the store's own key", key)
	case o.kind == oneAgent && o.host != host.Index:
		return fmt.Errorf("put %.40q: a key of another host", key)
	case o.kind == oneRank && o.epoch != host.Epoch:
		return nil
	case o.kind == oneRank && (host.Owns == nil || !host.Owns(o.rank)):
		return fmt.Errorf("put %.40q: a key of a rank of another host", key)
	}
	of, _, is := pairOf(questions, key)
	if is && len(value) > MaxQuestion {
		return fmt.Errorf("put %.40q: a question of %d bytes, at most %d allowed", key, len(value), MaxQuestion)
	}
	if is {
		return s.ask(host, of, key, value)
	}
	if _, _, is = pairOf(answers, key); !is {
		return s.Put(host.Name, key, value)
	}
	if err := CheckSize(key, value); err != nil {
		return err
	}
	s.answer(questions+strings.TrimPrefix(key, answers), key, value)
	return nil
}

// ask puts a question, and tells the host that is asked of the first one of another.
func (s *Store) ask(host Host, of int, key string, value []byte) error {
	if err := s.Put(host.Name, key, value); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if pair := [2]int{of, host.Index}; !s.asked[pair] {
		s.asked[pair] = true
		s.asking[of]++
		s.set(AskerKey(of, s.asking[of]), entry{host.Name, []byte(strconv.Itoa(host.Index))})
	}
	return nil
}

func (s *Store) answer(question, key string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked, known := s.values[question]
	if !known {
		return
	}
	s.drop(question)
	s.drop(key)
	// Half of what the host may hold is left for what it puts itself: others choose the size.
	if cost := costOf(key, value); 2*(s.held[asked.by]+cost) > s.limit-s.bytes-cost {
		value = nil
	}
	s.set(key, entry{asked.by, value})
}

// Got drops an answer that the host that has asked, of this index, has got.
func (s *Store) Got(host int, key string) {
	if _, by, is := pairOf(answers, key); is && by == host {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(key)
	}
}
