package cross

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

// Where one algorithm hands over to the next, in bytes of the vector. Doubling sends the
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

// skips are the distances on the circulant graph of n members, ascending: from n down
// each is half of the one above, rounded up. The last one is n itself.
func skips(n int) []int {
	s := []int{n}
	for s[0] > 1 {
		s = append([]int{(s[0] + 1) / 2}, s...)
	}
	return s
}

// pow2 is the largest power of two that is not above n.
func pow2(n int) int {
	p := 1
	for 2*p <= n {
		p *= 2
	}
	return p
}
