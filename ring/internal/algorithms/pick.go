package algorithms

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gorun/gorun/ring/internal/collective"
)

// Algorithm is a way to do a collective; see the package comment.
type Algorithm uint8

// The algorithms.
const (
	Doubling Algorithm = 1 + iota
	Tree
	Circulant
	Ring

	algorithms
)

func (a Algorithm) String() string {
	return [...]string{"auto", "doubling", "tree", "circulant", "ring"}[a]
}

// All returns the algorithms.
func All() []Algorithm {
	var all []Algorithm
	for a := Algorithm(1); a < algorithms; a++ {
		all = append(all, a)
	}
	return all
}

// ParseAlgorithm returns the algorithm of that name. The empty name and "auto" are 0.
func ParseAlgorithm(name string) (Algorithm, error) {
	if name == "" {
		return 0, nil
	}
	for a := range algorithms {
		if a.String() == name {
			return a, nil
		}
	}
	return 0, fmt.Errorf("%q is no algorithm: it must be auto, doubling, tree, circulant or ring", name)
}

// choose returns the algorithm for a collective of so many bytes. All members come to the
// same choice.
func (t *Team) choose(k collective.Kind, bytes, root int) Algorithm {
	if _, ok := t.cost.Time(k, t.only, t.Size(), bytes, root); ok && t.only != 0 {
		return t.only
	}
	return t.cost.Pick(k, t.Size(), bytes, root)
}

// skips returns the distances on the circulant graph of n members, ascending: from n down
// each is half of the one above, rounded up. The last one is n itself.
func skips(n int) []int {
	s := []int{n}
	for s[0] > 1 {
		s = append([]int{(s[0] + 1) / 2}, s...)
	}
	return s
}

// pow2 returns the largest power of two that is not above n.
func pow2(n int) int {
	p := 1
	for 2*p <= n {
		p *= 2
	}
	return p
}

// Partners returns the members that member me of n exchanges data with in all algorithms but
// those from a root. The relation is symmetric.
func Partners(n, me int) []int {
	set := map[int]bool{}
	around := func(distance int) {
		set[(me+distance)%n] = true
		set[(me-distance%n+n)%n] = true
	}
	for _, skip := range skips(n) {
		around(skip)
	}
	full := pow2(n)
	extra := n - full
	for distance := 1; distance < n; distance *= 2 {
		around(distance)
		for other := range n {
			a := place(me, extra)
			b := place(other, extra)
			if a >= 0 && b >= 0 && a^b == distance {
				set[other] = true
			}
		}
	}
	delete(set, me)
	return slices.Sorted(maps.Keys(set))
}

// place returns a member's number among the full ones of a recursive doubling, or -1.
func place(member, extra int) int {
	switch {
	case member >= 2*extra:
		return member - extra
	case member%2 == 1:
		return member / 2
	}
	return -1
}
