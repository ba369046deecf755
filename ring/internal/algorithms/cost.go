package algorithms

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/ring/internal/collective"
)

// Cost describes a network by what each message and byte costs, in whole picoseconds, so
// that ranks on unlike processors come to the same choice.
type Cost struct {
	Alpha    int64 // time of a message, from the sender's call to the receiver's return
	Overhead int64 // time of a message that keeps a rank's processor busy: a part of Alpha
	Beta     int64 // time of a byte in one direction of a usual rank's link
	Slow     int64 // the same for the slowest member
	Slowest  int   // member with that link
	Gamma    int64 // time of a byte that is combined
}

// Bounds on what a Cost may say, so that no time overflows.
const (
	maxLatency = 10e12   // 10 s
	maxPerByte = 1e6     // 1 MB/s
	maxBytes   = 1 << 36 // the choice is the same above
)

// ParseNetwork reads the costs of a network from its latency and speed, such as 20us,10Gb/s.
func ParseNetwork(text string) (Cost, error) {
	bad := fmt.Errorf("%q is no network: it must be a latency and a speed, such as 20us,10Gb/s", text)
	latency, speed, _ := strings.Cut(text, ",")
	alpha, err := time.ParseDuration(latency)
	if err != nil || alpha <= 0 {
		return Cost{}, bad
	}
	number, giga := strings.CutSuffix(speed, "Gb/s")
	if !giga {
		number, _ = strings.CutSuffix(speed, "Mb/s")
	}
	speedMb, err := strconv.ParseFloat(number, 64)
	if giga {
		speedMb *= 1000
	}
	if err != nil || !(speedMb > 0) || number == speed {
		return Cost{}, bad
	}
	c := Cost{Alpha: min(alpha.Nanoseconds(), maxLatency/1000) * 1000,
		Beta: int64(max(1, min(8e6/speedMb, maxPerByte)))}
	c.Overhead = min(c.Alpha/4, usualOverhead)
	c.Gamma = min(c.Beta, usualGamma)
	return c.Clamp(), nil
}

// What the processor takes where it was not measured.
const (
	usualOverhead = 5e6
	usualGamma    = 50
)

// Clamp returns c within the bounds that Time needs.
func (c Cost) Clamp() Cost {
	c.Alpha = min(max(c.Alpha, 0), maxLatency)
	c.Overhead = min(max(c.Overhead, 0), maxLatency)
	c.Beta = min(max(c.Beta, 0), maxPerByte)
	c.Gamma = min(max(c.Gamma, 0), maxPerByte)
	c.Slow = min(max(c.Slow, c.Beta), maxPerByte)
	return c
}

// Time returns how long a collective takes by an algorithm, and whether it can be done by it. Bytes
// are those of the whole vector: of all parts of an all-gather, a reduce-scatter or an all-to-all.
// Root matters where the collective has one.
//
// Bytes stream: a part is sent on while it is received. So a chain of hops costs its latencies, and
// the bytes once. It is combined meanwhile too. The overhead of messages takes turns with the
// bytes. The slowest link delays what passes it; other ranks are ahead meanwhile, so that most
// latencies of its own hide behind its bytes.
func (c Cost) Time(k collective.Kind, a Algorithm, members, bytes, root int) (ps int64, ok bool) {
	if members < 2 {
		return 0, true
	}
	s := c.sizes(members, bytes)
	switch k {
	case collective.AllReduce:
		switch a {
		case Doubling:
			return s.doubling(), true
		case Circulant:
			t := 2*s.rounds*c.Alpha + s.others*(s.slowFold+c.Slow)
			// Where the slowest link is busy all the time, what is needed first waits behind what
			// is not.
			return t + max(0, s.others*(c.Slow-c.Beta)-2*s.rounds*c.Alpha)/3, true
		case Ring:
			return (s.n-1)*s.hop(s.slowFold, 1) + s.circle(c.Slow, 1), true
		}
	case collective.ReduceScatter:
		switch a {
		case Circulant:
			return s.halving(s.fold, s.slowFold), true
		case Ring:
			segment := int64(c.scatterSegment(members))
			return s.circle(s.slowFold, (s.block+segment-1)/segment), true
		}
	case collective.AllGather:
		switch a {
		case Circulant:
			return s.halving(c.Beta, c.Slow), true
		case Ring:
			return s.circle(c.Slow, 1), true
		}
	case collective.Broadcast, collective.Reduce:
		return s.fromRoot(k, a, root)
	case collective.AllToAll:
		switch a {
		case Circulant:
			return s.rounds*c.Alpha + s.relayed()*s.block*c.Slow, true
		case Ring:
			return (s.n - 1) * (c.Alpha + s.block*c.Slow), true
		}
	}
	return 0, false
}

// sizes are what the times of a vector are made of.
type sizes struct {
	Cost
	n, bytes int64
	block    int64 // bytes of each member's block
	others   int64 // bytes of all other blocks
	rounds   int64 // log2 n, rounded up
	full     int64 // log2 n, rounded down
	fold     int64 // time of a byte that is combined as it comes
	slowFold int64
}

func (c Cost) sizes(members, bytes int) sizes {
	s := sizes{
		Cost:     c,
		n:        int64(members),
		bytes:    int64(min(bytes, maxBytes)),
		fold:     max(c.Beta, c.Gamma),
		slowFold: max(c.Slow, c.Gamma),
	}
	s.block = (s.bytes + s.n - 1) / s.n
	s.others = s.bytes - s.block
	s.rounds = int64(bits.Len64(uint64(s.n - 1)))
	s.full = int64(bits.Len64(uint64(s.n))) - 1
	return s
}

// halving is the time of a reduce-scatter or an all-gather on the circulant graph. What others send
// ahead hides a latency of the slowest member.
func (s sizes) halving(perByte, slow int64) int64 {
	t := s.rounds*s.Alpha + s.others*slow
	if s.rounds > 2 {
		t -= min(s.Alpha, s.others*(slow-perByte)/4)
	}
	return t
}

// relayed is how many blocks a member sends in an all-to-all whose blocks travel in hops: a hop for
// each bit of their distances.
func (s sizes) relayed() (blocks int64) {
	for hop := int64(1); hop < s.n; hop *= 2 {
		blocks += s.n/(2*hop)*hop + max(0, s.n%(2*hop)-hop)
	}
	return blocks
}

// circle is the time of n-1 hops around the ring, in so many flows.
func (s sizes) circle(perByte, flows int64) int64 {
	return (s.n-2)*s.hop(perByte, flows) + flows*s.Alpha + s.block*perByte
}

// hop is the time of one hop around the ring, while others go on.
func (s sizes) hop(perByte, flows int64) int64 {
	return max(flows*s.Alpha, flows*s.Overhead+s.block*s.Slow, s.block*perByte)
}

// cached is the length of a vector in bytes above which memory slows doubling.
const cached = 512 << 10

// doubling is the time of a recursive doubling. It combines more bytes than others, in more memory:
// a quarter of the time to combine them once makes a ring of two members win where vectors are
// long.
func (s sizes) doubling() int64 {
	t := s.full*(s.Alpha+s.bytes*s.fold) + max(0, s.bytes-cached)*s.Gamma/4
	extra := int(s.n) - 1<<s.full
	before := s.Alpha + s.bytes*s.fold
	after := s.Alpha + s.bytes*s.Beta // time of members outside the power of two
	switch {
	case extra == 1 && s.full > 1:
		t += before // what this pair gets last does not wait for what it gave first
	case extra > 0:
		t += after + s.bytes*s.fold
	}
	slower := s.bytes * (s.slowFold - s.fold)
	number := place(s.Slowest, extra)
	switch {
	case number < 0:
		return t + 2*slower
	case number < extra:
		return max(t+slower, 2*s.Alpha+(s.full+2)*s.bytes*s.slowFold)
	}
	// Its first partner and its last one may have another member's vector to take or to give.
	if number^1 >= extra {
		before = 0
	}
	if number^1<<(s.full-1) >= extra {
		after = 0
	}
	if s.full == 1 {
		return max(t, s.Alpha+s.bytes*s.slowFold+max(before, after))
	}
	return max(t, s.full*(s.Alpha+s.bytes*s.fold)+2*slower, before+2*s.Alpha+s.full*s.bytes*s.slowFold+after)
}

// fromRoot is the time of a broadcast, and of a reduce, which is one backwards.
func (s sizes) fromRoot(k collective.Kind, a Algorithm, root int) (ps int64, ok bool) {
	perByte := s.Beta
	slow := s.Slow
	if k == collective.Reduce {
		perByte = s.fold
		slow = s.slowFold
	}
	place := (s.Slowest - root + int(s.n)) % int(s.n) // distance of the slowest from the root
	switch a {
	case Tree:
		last := int64(mostOnes(uint(s.n-1)))*s.Alpha + s.rounds*s.bytes*perByte
		return max(s.full*(s.Alpha+s.bytes*perByte), last, s.slowInTree(k, place, perByte, slow)), true
	case Circulant:
		return s.throughBlocks(k, place, perByte, slow), s.n > 2
	case Ring:
		return (s.n-1)*s.Alpha + s.bytes*slow, true
	}
	return 0, false
}

// throughBlocks is the time of a broadcast or a reduce in which every member has a block in
// between. In a broadcast members begin the second half at unlike times: latencies hide some of
// that where vectors are short. The slowest member is busy with its own bytes while others go on,
// so that half of the latencies hide behind them.
func (s sizes) throughBlocks(k collective.Kind, place int, perByte, slow int64) int64 {
	unlike := func(perByte int64) int64 {
		if k == collective.Reduce {
			return 0
		}
		return max(0, s.others*perByte*3/4-s.rounds*s.Alpha)
	}
	t := 2*s.rounds*s.Alpha + s.others*(perByte+s.Beta) + unlike(s.Beta)
	if s.Slow == s.Beta {
		return t
	}
	if place == 0 {
		return max(t, s.rounds*s.Alpha+s.others*(slow+s.Slow)+unlike(s.Slow))
	}
	carried := s.block << bits.TrailingZeros(uint(place)) // its blocks, and those that pass it on the tree
	return max(t, s.rounds*s.Alpha+s.others*(perByte+s.Slow)+carried*slow+unlike(s.Slow))
}

// mostOnes returns how many bits the numbers up to n that are as long as n have set at most: the
// hops to the members that a binomial tree reaches in the last round.
func mostOnes(n uint) int {
	most := bits.OnesCount(n)
	for i := range bits.Len(n) - 1 {
		if n>>i&1 == 1 {
			most = max(most, bits.OnesCount(n>>(i+1))+i)
		}
	}
	return most
}

// slowInTree is the time of a binomial tree on the path through the slowest member.
func (s sizes) slowInTree(k collective.Kind, place int, perByte, slow int64) int64 {
	round := bits.Len(uint(place))
	t := int64(0) // round in which it receives, from 1
	if place > 0 {
		hops := int64(bits.OnesCount(uint(place)))
		t = hops*s.Alpha + s.bytes*slow
		if k == collective.Broadcast {
			t += int64(round-1) * s.bytes * perByte // what passes the path before
		} else {
			t += (hops-1)*s.bytes*perByte + (int64(round)-hops)*s.bytes*s.Gamma // what passes, or is combined, after
		}
	}
	children := int64(0)
	for ; place+1<<round < int(s.n); round++ {
		children++
	}
	if children == 0 {
		return t
	}
	return t + max(children*s.bytes*slow+s.Alpha, s.bytes*slow+min(children,
		s.full)*s.Alpha+(children-1)*s.bytes*perByte)
}

// Pick returns the algorithm that takes the least time, or a later one that takes hardly longer: it
// uses fewer connections, or less memory.
func (c Cost) Pick(k collective.Kind, members, bytes, root int) Algorithm {
	var best Algorithm
	var least int64
	for a := Algorithm(1); a < algorithms; a++ {
		if t, ok := c.Time(k, a, members, bytes, root); ok && (best == 0 || t <= least+least/hardly) {
			best = a
			least = t
		}
	}
	return best
}

// hardly is the part of the time by which a later algorithm may be slower.
const hardly = 64

// Best returns how long a collective takes by the algorithm that Pick chooses.
func (c Cost) Best(k collective.Kind, members, bytes, root int) int64 {
	t, _ := c.Time(k, c.Pick(k, members, bytes, root), members, bytes, root)
	return t
}

// Segments bound the scratch memory of algorithms that relay sums through it. Each segment
// is a flow.
const (
	scatterRoom = 4 << 20
	reduceRoom  = 256 << 10
)

// scatterSegment returns how many bytes of each part one flow of a reduce-scatter around the
// ring carries. At the end of each flow the ring runs empty for one latency: that is a small
// share of a flow.
func (c Cost) scatterSegment(members int) int {
	pipe := c.Alpha / max(c.Slow, 1) // bytes under way on one link
	return align(max(scatterRoom/members, int(pipe), int(32*pipe)/members))
}

// reduceSegment returns how many bytes one flow of a reduce down a chain carries. Flows
// follow each other without a pause, and cost their overhead.
func (c Cost) reduceSegment() int {
	return align(max(reduceRoom, int(64*c.Overhead/max(c.Beta, 1))))
}
