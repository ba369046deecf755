package shm

import "slices"

// partition returns the sets of ranks that share memory. leaders has, by rank, the lowest
// rank whose memory it can map, itself included, or None. A rank belongs to its leader if
// that leads itself, else it is alone, as is a rank with an invalid leader above itself.
// Every rank is in exactly one set; sets are ascending, and ordered by their first rank,
// which leads them.
func partition(leaders []int) [][]int {
	var domains [][]int
	led := make([]int, len(leaders)) // index of the set, by leader
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

// splitFailed returns domains with each set in which a rank failed split into single ranks.
func splitFailed(domains [][]int, ok []bool) [][]int {
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

// domainOf returns the set that holds rank, and its index there.
func domainOf(domains [][]int, rank int) (domain []int, place int) {
	for _, d := range domains {
		if i, found := slices.BinarySearch(d, rank); found {
			return d, i
		}
	}
	return []int{rank}, 0
}
