package tcp

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/flow"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// noise returns bytes that are the same in every run.
func noise(seed uint64, n int) []byte {
	random := rand.New(rand.NewPCG(seed, 1))
	words := make([]uint64, (n+7)/8)
	for i := range words {
		words[i] = random.Uint64()
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)[:n:n]
}

// ringAllReduce returns a rank's flow of a ring that sums int64 vectors in place: a
// reduce-scatter and an all-gather, as in Patarasuk and Yuan, 2009. Chunk i is
// cuts[i] to cuts[i+1], in bytes.
func ringAllReduce(rank, size int, vector []byte, cuts []int) *flow.Flow {
	chunk := func(i int) []byte {
		i = (i%size + size) % size
		return vector[cuts[i]:cuts[i+1]]
	}
	f := &flow.Flow{
		Sign: &flow.Sign{2},
		To:   (rank + 1) % size,
		From: (rank - 1 + size) % size,
		Send: [][]byte{chunk(rank)},
		Lead: 1,
		Type: kernel.I64,
		Op:   kernel.Sum,
	}
	for step := range 2 * (size - 1) {
		mine := chunk(rank - 1 - step)
		part := flow.Part{Into: mine}
		if step < size-1 {
			part.With = mine
		}
		f.Recv = append(f.Recv, part)
		if len(f.Send) < 2*(size-1) {
			f.Send = append(f.Send, mine)
		}
	}
	return f
}

func int64s(b []byte) []int64 {
	return unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
}

func int32s(b []byte) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// Rings of relays, with chunks of all lengths, some of them empty.
func TestRings(t *testing.T) {
	onEveryGuard(t, func(t *testing.T, guard secure.Guard) {
		for size := 3; size <= 8; size++ {
			stripes := 1 + size%4
			nets := guardedWorld(t, guard, size, stripes)
			for _, elements := range []int{1, size, 3 * size, 1000*size + 1, 40_000 * size} {
				random := rand.New(rand.NewPCG(uint64(size), uint64(elements)))
				cuts := make([]int, size+1)
				for i := 1; i < size; i++ {
					cuts[i] = 8 * min(elements, cuts[i-1]/8+random.IntN(2*elements/size+1))
				}
				cuts[size] = 8 * elements
				vectors := make([][]byte, size)
				want := make([]int64, elements)
				flows := make([]*flow.Flow, size)
				for rank := range flows {
					vectors[rank] = noise(uint64(rank), 8*elements)
					for i, v := range int64s(vectors[rank]) {
						want[i] += v
					}
					flows[rank] = ringAllReduce(rank, size, vectors[rank], cuts)
				}
				run(t, nets, flows)
				for rank, v := range vectors {
					must.That(t, slices.Equal(int64s(v), want),
						"%d elements on rank %d of %d in %d stripes: the sum is wrong", elements, rank, size, stripes)
				}
			}
		}
	})
}

// A vector streams from rank 0 through all others, in parts of all lengths.
func TestChain(t *testing.T) {
	onEveryGuard(t, func(t *testing.T, guard secure.Guard) {
		lengths := []int{0, 1, 63, 0, 200_003, stripeMin, 5, 1 << 20, 0}
		for _, size := range []int{2, 3, 5} {
			for stripes := 1; stripes <= 3; stripes++ {
				nets := guardedWorld(t, guard, size, stripes)
				flows := make([]*flow.Flow, size)
				got := make([][][]byte, size)
				for rank := range flows {
					f := &flow.Flow{Sign: &flow.Sign{3}, To: rank + 1, From: rank - 1} // rank -1 is none
					for i, n := range lengths {
						part := make([]byte, n)
						if rank == 0 {
							part = noise(uint64(i), n)
							f.Lead++
						} else {
							f.Recv = append(f.Recv, flow.Part{Into: part})
						}
						f.Send = append(f.Send, part)
						got[rank] = append(got[rank], part)
					}
					if rank == size-1 {
						f.To = flow.None
						f.Send = nil
					}
					flows[rank] = f
				}
				run(t, nets, flows)
				for rank := range got {
					for i := range lengths {
						check.That(t, bytes.Equal(got[rank][i], got[0][i]),
							"part %d on rank %d of %d in %d stripes: other bytes than were sent",
							i, rank, size, stripes)
					}
				}
			}
		}
	})
}

func TestFlowOfNothing(t *testing.T) {
	nets := world(t, 2, 2)
	check.OK(t, nets[0].Run(&flow.Flow{Sign: new(flow.Sign), To: flow.None, From: flow.None}))
	both := []*flow.Flow{{Sign: &flow.Sign{9}, To: 1, From: flow.None}, {Sign: &flow.Sign{9}, To: flow.None, From: 0}}
	run(t, nets, both)
	both[0].Sign = &flow.Sign{8} // the sign alone is compared as well
	errs := each(nets, func(rank int, n *Net) error { return n.Run(both[rank]) })
	var sign *SignError
	check.That(t, errs[0] == nil && errors.As(errs[1], &sign) && sign.Rank == 0 && sign.Theirs == *both[0].Sign,
		"signs differ: %v", errs)
}

// Bytes arrive one at a time, so that every element and the sign are split. R12 of the fault
// matrix.
func TestDribble(t *testing.T) {
	n := rankTwo(t, 1)
	conn := dialAs(t, n, 0, 1)[0]
	theirs := noise(1, 200)
	with := noise(2, 200)
	want := make([]int32, 50)
	for i := range want {
		want[i] = int32s(theirs)[i] + int32s(with)[i]
	}
	plain := make([]byte, 3)
	sign := flow.Sign{5}
	go func() {
		for _, b := range bytes.Join([][]byte{sign[:], theirs, []byte("end")}, nil) {
			unix.Write(conn.FD, []byte{b})
		}
	}()
	err := n.Run(&flow.Flow{
		Sign: &sign,
		To:   flow.None,
		From: 0,
		Type: kernel.I32,
		Op:   kernel.Sum,
		Recv: []flow.Part{{Into: with, With: with}, {Into: plain}},
	})
	check.That(t, err == nil && slices.Equal(int32s(with), want) && string(plain) == "end",
		"%q after the sums, %v", plain, err)
}
