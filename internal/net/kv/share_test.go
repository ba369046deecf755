package kv

import (
	"fmt"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// Three hosts whose ranks use up their shares, with several agents or one, have what they ask for.
func TestSharesOfThreeHosts(t *testing.T) {
	store := NewStore()
	fences := NewFences(1 << 20)
	value := make([]byte, MaxValue)
	for host := range 3 {
		by := fmt.Sprint("h", host)
		agents := 1 + 7*host
		for agent := range agents {
			s := NewShare(agents)
			stored := 0
			posted := 0
			for n := range maxOpen {
				name := fmt.Sprint(host, agent, n)
				if s.Put(name, value) == nil {
					must.OK(t, store.Put(by, name, value))
					stored++
				}
				values := map[int][]byte{n: value[:MaxFence/(1+n%3)]}
				if s.Post(name, values) == nil {
					_, err := fences.AddBy(by, name, values)
					must.OK(t, err)
					posted++
				}
			}
			check.That(t, stored > 0 && posted > 0, "%s: %d values, %d fences", by, stored, posted)
		}
	}
}

func TestShareIsGivenBack(t *testing.T) {
	s := NewShare(1)
	value := make([]byte, MaxValue)
	full := func() (n int) {
		for s.Put(fmt.Sprint("epoch/3/", n), value) == nil {
			n++
		}
		return n
	}
	n := full()
	check.Error(s.Put("more", value)).Any(t, "more than", n, "values")
	s.Begin(4)
	check.Equal(t, full(), n, "values of the next epoch")
	s.Begin(4)
	for n := range 1 << 16 { // more questions than fit at a time
		must.OK(t, s.Put(QuestionKey(1, 0, n), value[:MaxQuestion]))
		s.Got(AnswerKey(1, 0, n))
		must.OK(t, s.Put(AnswerKey(0, 1, n), value))
		must.OK(t, s.Post("f", map[int][]byte{0: value[:MaxFence]}))
		s.End("f")
	}
	check.That(t, s.bytes == 0 && s.posted == 0 && len(s.held)+len(s.fences) == 0, "%+v", s)
}
