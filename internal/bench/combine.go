package bench

import "github.com/gorun/gorun/ring"

// element is a value that is only moved: 0 to 126, different for different
// seeds.
func element(i, seed int) int64 { return int64(i*5+seed*11+seed/127) % 127 }

// Results must be exact in any order, also in the 8 bits of a bfloat16's significand. So of
// up to a few thousand ranks only about this many bring something to one element; which
// ones depends on the element, so that none is left out of all.
const few = 48

// chosen reports whether rank is one of about limit ranks out of n at element i.
func chosen(i, rank, n, limit int) bool { return (i+rank)%min((n+limit-1)/limit, period) == 0 }

// contribution returns element i of a rank's input, of n ranks.
func (c combination) contribution(i, rank, n int) int64 {
	v := c.signed(i, rank, n)
	if c.typ.unsigned() || c.typ.id == ring.Bool {
		v &= 0x7f
	}
	return c.typ.wrap(v)
}

func (c combination) signed(i, rank, n int) int64 {
	switch c.operation() {
	case ring.Sum:
		if !chosen(i, rank, n, few) {
			return 0
		}
		return int64(i*3+rank*5)%6 - 1
	case ring.Avg: // the same from every rank but for pairs that cancel out
		base := int64(0)
		if n <= few {
			base = int64(1 + i%4)
		}
		if rank == n-1 && n%2 == 1 {
			return base
		}
		return base + 1 - 2*int64(rank%2)
	case ring.Prod: // two or three twos, and signs
		switch {
		case (i+rank)%((n+1)/2) == 0:
			return 2
		case (i+rank)%3 == 0:
			return -1
		}
		return 1
	case ring.BAnd: // one rank lacks a bit
		if !chosen(i, rank, n, 1) {
			return 0x7f
		}
		return 0x7f &^ int64(1|i)
	case ring.BOr:
		if !chosen(i, rank, n, 1) {
			return 0
		}
		return int64(1 | i)
	}
	return int64(i*5+rank*11)%127 - 63 // min, max and bxor
}

// operation is op, or what op means for bools.
func (c combination) operation() ring.Op {
	if c.typ.id == ring.Bool {
		switch c.op {
		case ring.Sum, ring.Max:
			return ring.BOr
		case ring.Prod, ring.Min:
			return ring.BAnd
		}
	}
	return c.op
}

// tile returns the input of a rank of n.
func (c combination) tile(rank, n int) []byte {
	return c.typ.tile(func(i int) int64 { return c.contribution(i, rank, n) })
}

// combined returns the expected result of all ranks' tiles.
func (c combination) combined(n int) []byte {
	return c.typ.tile(func(i int) int64 {
		v := c.contribution(i, 0, n)
		for rank := 1; rank < n; rank++ {
			v = c.typ.wrap(combine(c.operation(), v, c.contribution(i, rank, n)))
		}
		if c.op == ring.Avg {
			v /= int64(n)
		}
		return v
	})
}

func combine(op ring.Op, a, b int64) int64 {
	switch op {
	case ring.Min:
		return min(a, b)
	case ring.Max:
		return max(a, b)
	case ring.Prod:
		return a * b
	case ring.BAnd:
		return a & b
	case ring.BOr:
		return a | b
	case ring.BXor:
		return a ^ b
	}
	return a + b
}
