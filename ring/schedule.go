package ring

// A buffer is cut into one chunk for each rank. Every rank sends to the next one
// and receives from the one before, a chunk in each step; the last rank's next is
// rank 0.
//
// In the first size-1 steps of an allreduce (reduce-scatter) a rank combines what
// it receives into its own chunk, so that each chunk grows by one rank a step as it
// travels around. Then each rank holds one finished chunk, and in the size-1
// steps that follow (all-gather) the finished chunks travel around once more.
// Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", 2009.

// schedule returns which chunk a rank sends and which it receives in a step, from
// 0. It is one formula for both halves of an allreduce, and for an all-gather.
func schedule(rank, size, step int) (send, recv int) {
	send = ((rank-step)%size + size) % size
	return send, (send - 1 + size) % size
}

// span returns where chunk i of size is among n elements: [lo, hi). The first
// n%size chunks are one longer than the others.
func span(n, size, i int) (lo, hi int) {
	short, longer := n/size, n%size
	lo = i*short + min(i, longer)
	hi = lo + short
	if i < longer {
		hi++
	}
	return lo, hi
}

// meetings returns the other ranks that a rank meets in each round of a barrier:
// those at distance 3^k both ways. After round k it knows, through them, of all
// ranks at a distance of up to (3^(k+1)-1)/2, so that log3(size) rounds, rounded up,
// reach everyone. It is the dissemination barrier of Hensgen, Finkel and Manber,
// "Two algorithms for barrier synchronization", 1988, done in both directions.
func meetings(rank, size int) [][]int {
	var rounds [][]int
	for distance := 1; distance < size; distance *= 3 {
		up, down := (rank+distance)%size, (rank-distance+size)%size
		round := []int{up}
		if down != up {
			round = append(round, down)
		}
		rounds = append(rounds, round)
	}
	return rounds
}
