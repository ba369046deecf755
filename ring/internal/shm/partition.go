package shm

import "slices"

// partition is the sets of ranks that share memory, from every rank's leader: the
// lowest rank whose memory it can map, itself included, or None. A rank belongs
// to its leader if that is its own leader, else it is alone. A leader above the
// rank is no true answer, and makes it alone too. Every rank is in exactly one
// set; sets are ascending, and ordered by their first rank, which leads them.
func partition(leaders []int) [][]int {
	var domains [][]int
	led := make([]int, len(leaders)) // by leader: its set's place in domains
	for q, p := range leaders {
		if p >= 0 && p < q && leaders[p] == p {
			domains[led[p]] = append(domains[led[p]], q)
			continue
		}
		led[q] = len(domains)
		domains = append(domains, []int{q})
	}
	return domains
}

// standing is domains without the sets in which a rank has failed: those fall
// apart into single ranks.
func standing(domains [][]int, ok []bool) [][]int {
	var left [][]int
	for _, d := range domains {
		if !slices.ContainsFunc(d, func(q int) bool { return !ok[q] }) {
			left = append(left, d)
			continue
		}
		for _, q := range d {
			left = append(left, []int{q})
		}
	}
	slices.SortFunc(left, func(a, b []int) int { return a[0] - b[0] })
	return left
}

// shared reports whether any two ranks share memory.
func shared(domains [][]int) bool {
	return slices.ContainsFunc(domains, func(d []int) bool { return len(d) > 1 })
}

// domainOf is the set that holds rank, and its place in it.
func domainOf(domains [][]int, rank int) (domain []int, place int) {
	for _, d := range domains {
		if i, found := slices.BinarySearch(d, rank); found {
			return d, i
		}
	}
	return []int{rank}, 0
}
