package ring_test

import (
	"encoding/binary"
	"flag"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring"
)

var update = flag.Bool("update", false, "rewrite testdata/sums.golden; commit it only when it is understood why "+
	"other bits come out")

// sixtyFourth is a number that all four floating point types hold exactly, in 64ths: sums of such
// are added up exactly as integers.
func sixtyFourth(random *rand.Rand) int64 {
	k := (1 + random.Int64N(127)) << random.IntN(7)
	if random.IntN(2) == 0 {
		return -k
	}
	return k
}

// numberOf is the number that bits stand for; that of an integer type is not negative.
func numberOf(typ ring.Type, b []byte) float64 {
	switch typ {
	case ring.Float32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case ring.Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	case ring.BFloat16:
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
	case ring.Float16:
	default:
		var word [8]byte
		copy(word[:], b[:typ.Size()])
		return float64(binary.LittleEndian.Uint64(word[:]))
	}
	bits := binary.LittleEndian.Uint16(b)
	exponent := int(bits >> 10 & 31)
	number := float64(bits & 1023)
	if exponent > 0 {
		number += 1024
	}
	number = math.Ldexp(number, max(exponent, 1)-25)
	if bits>>15 == 1 {
		return -number
	}
	return number
}

// rounding is half of the distance from one to the next number, of each type.
func rounding(typ ring.Type) float64 {
	return math.Ldexp(1, map[ring.Type]int{ring.Float32: -24, ring.Float64: -53, ring.Float16: -11,
		ring.BFloat16: -8}[typ])
}

// addUp adds up n numbers of a type over all ranks, checks them against exact sums, and returns
// the bits.
func addUp(comms []*ring.Comm, transport string, typ ring.Type, n int) ([]byte, error) {
	size := len(comms)
	exact := make([]int64, n)
	magnitude := make([]int64, n)
	vectors := make([][]byte, size)
	for rank := range vectors {
		random := rand.New(rand.NewPCG(6, uint64(rank)))
		for i := range n {
			k := sixtyFourth(random)
			bits := bitsOf(typ, math.Abs(float64(k))/64)
			if k < 0 {
				bits |= 1 << (8*typ.Size() - 1)
			}
			vectors[rank] = binary.LittleEndian.AppendUint64(vectors[rank], bits)[:(i+1)*typ.Size()]
			exact[i] += k
			magnitude[i] += max(k, -k)
		}
	}
	if err := combine(comms, typ, ring.Sum, vectors); err != nil {
		return nil, err
	}
	for rank, v := range vectors {
		if string(v) != string(vectors[0]) {
			return nil, fmt.Errorf("rank %d has other bits than rank 0", rank)
		}
	}
	for i := range n {
		got := numberOf(typ, vectors[0][i*typ.Size():])
		want := float64(exact[i]) / 64
		all := float64(magnitude[i]) / 64
		bound := float64(size-1) * rounding(typ) * all * 1.01
		if transport == "shm" && typ.Size() == 2 { // added in float32, and rounded once
			bound = (rounding(typ)*math.Abs(want) + float64(size-1)*rounding(ring.Float32)*all) * 1.01
		}
		if !(math.Abs(got-want) <= bound) {
			return nil, fmt.Errorf("element %d is %v, exactly %v: further off than %v", i, got, want, bound)
		}
	}
	return vectors[0], nil
}

// sumsOf is a line on the bits that come out, for all floating point types and for short and long
// vectors.
func sumsOf(t *testing.T, l layout) string {
	comms := l.join(t, l.job(t))
	defer closeAll(comms)
	sum := crc32.NewIEEE()
	for _, typ := range []ring.Type{ring.Float32, ring.Float64, ring.Float16, ring.BFloat16} {
		lengths := []int{57, 20_011} // short and long vectors are added in two ways
		switch {
		case l.transport == "shm" && l.size > 5: // goroutines that share memory wait for each other's processors
			lengths = lengths[:1]
		case l.size > 9:
			lengths[1] = 8501
		}
		for _, n := range lengths {
			v, err := addUp(comms, l.transport, typ, n)
			check.OK(t, err, l.transport, l.size, "ranks,", n, typ)
			_, _ = sum.Write(v)
		}
	}
	return fmt.Sprintf("%s %d ranks: %08x", l.transport, l.size, sum.Sum32())
}

// R6: sums of 1 to 33 ranks are as close to the exact sums as rounding allows, and have the same
// bits on every machine: no measurement chooses the algorithm here.
func TestGoldenSums(t *testing.T) {
	must.HaveTime(t)
	const file = "testdata/sums.golden"
	text, err := os.ReadFile(file)
	must.That(t, err == nil || *update, "%v", err)
	golden := strings.Split(strings.TrimSpace(string(text)), "\n")
	var lines []string
	for _, transport := range []string{"tcp", "shm"} {
		for size := 1; size <= 33; size++ {
			if raceEnabled && size%8 != 1 && size != 2 && size != 6 && !*update {
				continue
			}
			line := sumsOf(t, over(transport, size, "RING_NETWORK=20us,10Gb/s"))
			lines = append(lines, line)
			check.That(t, *update || slices.Contains(golden, line), "%s: other bits than in %s", line, file)
		}
	}
	if *update {
		must.OK(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	}
}
