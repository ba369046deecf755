package ring_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

func defined(typ ring.Type, op ring.Op) bool {
	switch op {
	case ring.BAnd, ring.BOr, ring.BXor:
		return !typ.Float()
	case ring.Avg:
		return typ != ring.Bool
	}
	return true
}

// awkward are the bits of numbers that floating point treats in its own way: zeros,
// infinities, NaNs with payloads, the smallest and largest denormal, the least and the
// greatest normal number, and one.
func awkward(typ ring.Type) []uint64 {
	of := func(exponent, fraction uint) []uint64 {
		sign := uint64(1) << (exponent + fraction)
		most := uint64(1)<<exponent - 1
		full := uint64(1)<<fraction - 1
		all := []uint64{0, 1, full, 1 << fraction, (most-1)<<fraction | full, most << fraction,
			most<<fraction | 1<<(fraction-1), most<<fraction | 1<<(fraction-1) | 5, most >> 1 << fraction}
		for _, bits := range all {
			all = append(all, bits|sign)
		}
		return all
	}
	switch typ {
	case ring.Float32:
		return of(8, 23)
	case ring.Float64:
		return of(11, 52)
	case ring.Float16:
		return of(5, 10)
	case ring.BFloat16:
		return of(8, 7)
	case ring.Bool:
		return []uint64{0, 1}
	}
	return []uint64{0, 1, 2, math.MaxUint64, 1 << 7, 1 << 15, 1 << 31, 1 << 63, 1<<63 - 1, 1<<31 - 1}
}

// awkwardVector is a vector of n elements, many of them awkward and the others random bits. A long
// one repeats itself, since random numbers cost more than what the tests do with them.
func awkwardVector(typ ring.Type, rank, n int) []byte {
	const period = 4099 // a prime, so no piece of a power of two repeats with it
	random := rand.New(rand.NewPCG(uint64(typ), uint64(rank)))
	hard := awkward(typ)
	all := make([]byte, 0, n*typ.Size()+8)
	for range min(n, period) {
		bits := hard[random.IntN(len(hard))]
		if typ != ring.Bool && random.IntN(3) == 0 {
			bits = random.Uint64()
		}
		all = binary.LittleEndian.AppendUint64(all, bits)[:len(all)+typ.Size()]
	}
	for left := n - period; left > 0; left -= period {
		all = append(all, all[:min(left, period)*typ.Size()]...)
	}
	return all
}

// bitsOf puts v, which the type holds exactly, into its bits.
func bitsOf(typ ring.Type, v float64) uint64 {
	short := func(bias, fraction uint) uint64 {
		if v == 0 {
			return 0
		}
		exp := uint64(math.Float64bits(v)>>52) - 1023 + uint64(bias)
		return exp<<fraction | math.Float64bits(v)>>(52-fraction)&(1<<fraction-1)
	}
	switch typ {
	case ring.Float32:
		return uint64(math.Float32bits(float32(v)))
	case ring.Float64:
		return math.Float64bits(v)
	case ring.Float16:
		return short(15, 10)
	case ring.BFloat16:
		return short(127, 7)
	}
	return uint64(int64(v))
}

// small is element i of rank's vector in a sum that every type holds exactly.
func small(typ ring.Type, rank, i int) float64 {
	if typ == ring.Bool {
		return float64((rank + i) % 2)
	}
	return float64(1 + (rank+i)%2)
}

// folded is what op makes of the elements of all ranks, in float64.
func folded(typ ring.Type, op ring.Op, size int, element func(rank int) float64) float64 {
	v := element(0)
	for rank := 1; rank < size; rank++ {
		switch x := element(rank); op {
		case ring.Sum, ring.Avg:
			v += x
		case ring.Prod:
			v *= x
		case ring.Min:
			v = min(v, x)
		case ring.Max:
			v = max(v, x)
		case ring.BAnd:
			v = float64(int(v) & int(x))
		case ring.BOr:
			v = float64(int(v) | int(x))
		case ring.BXor:
			v = float64(int(v) ^ int(x))
		}
	}
	switch {
	case typ == ring.Bool:
		return min(v, 1)
	case op == ring.Avg:
		v /= float64(size)
	}
	return v
}

// exactly is what combining them comes to, and whether the type holds that.
func exactly(typ ring.Type, op ring.Op, size, i int) (want float64, exact bool) {
	want = folded(typ, op, size, func(rank int) float64 { return small(typ, rank, i) })
	switch {
	case op != ring.Avg:
		return want, true
	case !typ.Float():
		return math.Trunc(want), true
	}
	sum := folded(typ, ring.Sum, size, func(rank int) float64 { return small(typ, rank, i) })
	return want, want == math.Trunc(want*16)/16 && want*float64(size) == sum
}

// combine allreduces src in place on every rank.
func combine(comms []*ring.Comm, typ ring.Type, op ring.Op, vectors [][]byte) error {
	return ringtest.Each(len(comms), func(rank int) error {
		v := vectors[rank]
		b := ring.Buffer{Ptr: unsafe.Pointer(&v[0]), Len: len(v) / typ.Size()}
		return comms[rank].Do(ctx, collective(ring.KindAllReduce, typ, op, b, b))
	})
}

// testValues combines n awkward elements and n that make an exact result, twice.
func testValues(comms []*ring.Comm, typ ring.Type, op ring.Op, n int) error {
	var first []byte
	for run := range 2 {
		vectors := make([][]byte, len(comms))
		for rank := range vectors {
			v := awkwardVector(typ, rank, n)
			for i := range n {
				v = binary.LittleEndian.AppendUint64(v, bitsOf(typ, small(typ, rank, i)))[:len(v)+typ.Size()]
			}
			vectors[rank] = v
		}
		if err := combine(comms, typ, op, vectors); err != nil {
			return err
		}
		if run == 0 {
			first = vectors[0]
		}
		for rank, v := range vectors {
			if !bytes.Equal(v, first) {
				return fmt.Errorf("rank %d has other bits than rank 0, or run %d than the first", rank, run)
			}
		}
	}
	for i := range n {
		want, exact := exactly(typ, op, len(comms), i)
		bits := binary.LittleEndian.AppendUint64(nil, bitsOf(typ, want))[:typ.Size()]
		if got := first[(n+i)*typ.Size():][:typ.Size()]; exact && !bytes.Equal(got, bits) {
			return fmt.Errorf("element %d is %x, want %v, %x", i, got, want, bits)
		}
	}
	return nil
}

// Whatever the bits, all ranks end with the same ones, every time; and where a result
// can be exact, it is.
// It is row R6 of the fault matrix.
func TestEveryRankGetsTheSameBits(t *testing.T) {
	must.HaveTime(t)
	for _, base := range layouts() {
		if base.name == "stacked-3+1" {
			continue // it comes as stacked, by size
		}
		for size := 1; size <= 9; size++ {
			if base.streams > 1 && size != 2 && size != 5 || base.hosts != nil && size < 3 {
				continue // the same as others
			}
			if raceEnabled && size != 2 && size != 3 && size != 6 && size != 9 {
				continue
			}
			l := base.of(size)
			t.Run(fmt.Sprintf("%s/ranks=%d", l.name, size), func(t *testing.T) {
				t.Parallel()
				comms := l.join(t, l.job(t))
				for typ := ring.Float32; typ <= ring.Bool; typ++ {
					for op := ring.Sum; op <= ring.BXor; op++ {
						// in the large worlds, half of them: others have the other half
						if !defined(typ, op) || size > 4 && (int(typ)+int(op)+size)%2 == 1 ||
							!sampled(int(typ)+2*int(op)+size/2) {
							continue
						}
						n := []int{13, 3000, 40_000}[(int(typ)+int(op)+size)%3] / typ.Size()
						must.OK(t, testValues(comms, typ, op, max(n/2, 5)), op, "of", n, typ)
					}
				}
			})
		}
	}
}

// Whatever bytes ranks send as elements of bool, others get 0 and 1.
func TestBoolsAreZeroOrOne(t *testing.T) {
	for name, join := range worlds() {
		t.Run(name, func(t *testing.T) {
			comms := join(t)
			for _, f := range forms() {
				if f.kind == ring.KindBarrier || f.inPlace {
					continue
				}
				must.OK(t, ringtest.Each(len(comms), func(rank int) error {
					w := f.fill(position{n: 12_000}.at(comms[rank]), heap) // the bytes of floats
					w.Type = ring.Bool
					if w.Kind.Reduces() {
						w.Op = ring.BOr
					}
					if err := comms[rank].Do(ctx, w); err != nil {
						return err
					}
					for i, b := range w.Dst.Bytes(ring.Bool) {
						if b > 1 {
							return fmt.Errorf("element %d of rank %d is %d", i, rank, b)
						}
					}
					return nil
				}), f.name)
			}
		})
	}
}
