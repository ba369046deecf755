package kernel

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/gorun/gorun/internal/test/check"
)

// Ranks that are half of a tree may be combined before: the bits are the same.
func TestTreeOfHalvesHasTheBitsOfAllRanks(t *testing.T) {
	set := sets(t)[0]
	random := rand.New(rand.NewPCG(1, 2))
	const n = 3000
	for _, starts := range [][]int{
		{0, 1, 2, 3}, {0, 2, 3}, {0, 2, 4}, {0, 1, 2, 4}, {0, 2, 4, 6}, {0, 4, 6}, {0, 4, 8, 12}, {0, 4, 5, 6, 8, 11},
	} {
		ranks := starts[len(starts)-1]
		vectors := make([][]float32, ranks)
		for i := range vectors {
			vectors[i] = make([]float32, n)
			for j := range vectors[i] {
				vectors[i][j] = random.Float32() * float32(int(1)<<random.IntN(20))
			}
		}
		reduce := func(starts []int, vectors [][]float32, dst []float32) {
			srcs := make([]unsafe.Pointer, len(vectors))
			for i, v := range vectors {
				srcs[i] = unsafe.Pointer(&v[0])
			}
			NewTree(set, starts).Reduce(F32, Sum, unsafe.Pointer(&dst[0]), srcs, n)
		}
		want := make([]float32, n)
		reduce(Ranks(ranks), vectors, want)
		var halves [][]float32
		for i, from := range starts[:len(starts)-1] {
			half := make([]float32, n)
			reduce(Ranks(starts[i+1]-from), vectors[from:starts[i+1]], half)
			halves = append(halves, half)
		}
		got := halves[len(halves)-1] // one of the sources
		reduce(starts, halves, got)
		check.That(t, slices.Equal(got, want), "%v has other bits than a rank each", starts)
	}
}

func TestTreeOfOtherPartsIsNone(t *testing.T) {
	for _, starts := range [][]int{{0, 3, 4}, {0, 1, 3, 4}, {0, 3, 6}, {0, 4, 7, 8}} {
		check.That(t, NewTree(Set{}, starts) == nil, "%v is a tree", starts)
	}
}

// With one addition for two sources, a tree of two has the bits of Set.Reduce, for every type.
func TestTreeReducesEveryType(t *testing.T) {
	eachReduction(t, func(t *testing.T, dtype Type, op Op) {
		random := rand.New(rand.NewPCG(3, 4))
		n := 2 * treePiece / dtype.Size()
		var srcs []unsafe.Pointer
		for range 4 {
			v := make([]byte, n*dtype.Size())
			for i := range v {
				v[i] = byte(random.UintN(2))
			}
			srcs = append(srcs, unsafe.Pointer(&v[0]))
		}
		halves := [2][]byte{make([]byte, n*dtype.Size()), make([]byte, n*dtype.Size())}
		want := make([]byte, n*dtype.Size())
		var set Set
		set.Reduce(dtype, op, unsafe.Pointer(&halves[0][0]), srcs[:2], n)
		set.Reduce(dtype, op, unsafe.Pointer(&halves[1][0]), srcs[2:], n)
		set.Reduce(dtype, op, unsafe.Pointer(&want[0]),
			[]unsafe.Pointer{unsafe.Pointer(&halves[0][0]), unsafe.Pointer(&halves[1][0])}, n)
		got := make([]byte, n*dtype.Size())
		NewTree(set, Ranks(4)).Reduce(dtype, op, unsafe.Pointer(&got[0]), srcs, n)
		check.That(t, bytes.Equal(got, want), "%s", fmt.Sprint(dtype, op))
	})
}
