package algorithms

import (
	"maps"
	"slices"
)

// Algorithm is a way to do an allreduce.
type Algorithm uint8

// The algorithms; see the package comment.
const (
	Doubling Algorithm = 1 + iota
	Circulant
	Ring
)

func (a Algorithm) String() string {
	return [...]string{"", "doubling", "circulant", "ring"}[a]
}

// The limits between algorithms, in bytes of the vector. Doubling sends the
// whole vector log2 N times; the circulant graph sends it twice in twice as many rounds. A
// ring has 2(N-1) hops but no pause between them, so it pays once each hop carries enough.
const (
	doublingMax = 32 << 10
	ringBlock   = 128 << 10
)

// Pick chooses the algorithm for an allreduce of so many bytes in a team. All members
// come to the same choice.
func Pick(members, bytes int) Algorithm {
	switch {
	case bytes <= doublingMax:
		return Doubling
	case members == 2 || bytes/members >= ringBlock:
		return Ring
	}
	return Circulant
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
// the pairwise ones. The relation is symmetric.
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
			if a, b := place(me, extra), place(other, extra); a >= 0 && b >= 0 && a^b == distance {
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
