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
					if !slices.Equal(int64s(v), want) {
						t.Fatalf("%d elements on rank %d of %d in %d stripes: the sum is wrong", elements, rank, size,
							stripes)
					}
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
						if !bytes.Equal(got[rank][i], got[0][i]) {
							t.Errorf("part %d on rank %d of %d in %d stripes: other bytes than were sent", i, rank,
								size, stripes)
						}
					}
				}
			}
		}
	})
}

func TestFlowOfNothing(t *testing.T) {
	nets := world(t, 2, 2)
	if err := nets[0].Run(&flow.Flow{Sign: new(flow.Sign), To: flow.None, From: flow.None}); err != nil {
		t.Error(err)
	}
	both := []*flow.Flow{{Sign: &flow.Sign{9}, To: 1, From: flow.None}, {Sign: &flow.Sign{9}, To: flow.None, From: 0}}
	run(t, nets, both)
	both[0].Sign = &flow.Sign{8} // the sign alone is compared as well
	errs := each(nets, func(rank int, n *Net) error { return n.Run(both[rank]) })
	var sign *SignError
	if errs[0] != nil || !errors.As(errs[1], &sign) || sign.Rank != 0 || sign.Theirs != *both[0].Sign {
		t.Errorf("signs differ: %v", errs)
	}
}

// reduction is a way to combine received elements.
type reduction struct {
	t       kernel.Type
	op      kernel.Op
	first   bool // theirs
	divisor int
	inPlace bool
}

func reductions() []reduction {
	var all []reduction
	for t := kernel.F32; t <= kernel.Bool; t++ {
		for op := kernel.Sum; op <= kernel.BXor; op++ {
			if !kernel.Valid(t, op) {
				continue
			}
			all = append(all, reduction{t, op, false, 0, false}, reduction{t, op, true, 1, true})
			if t != kernel.Bool {
				all = append(all, reduction{t, op, true, 3, false})
			}
		}
	}
	return all
}

// values returns n elements of random bits that the type allows.
func (r reduction) values(seed uint64, n int) []byte {
	b := noise(seed, n*r.t.Size())
	if r.t == kernel.Bool {
		for i := range b {
			b[i] &= 1
		}
	}
	return b
}

// want returns the kernels' result for whole vectors.
func (r reduction) want(kernels kernel.Set, with, theirs []byte) []byte {
	out := make([]byte, len(with))
	n := len(with) / r.t.Size()
	pair := []unsafe.Pointer{unsafe.Pointer(&with[0]), unsafe.Pointer(&theirs[0])}
	if r.first {
		pair[0], pair[1] = pair[1], pair[0]
	}
	kernels.Reduce(r.t, r.op, unsafe.Pointer(&out[0]), pair, n)
	if r.divisor > 1 {
		kernels.Divide(r.t, unsafe.Pointer(&out[0]), unsafe.Pointer(&out[0]), n, r.divisor)
	}
	return out
}

// The bits equal those of the kernels, NaN included, so the order of operands matters.
func TestReductions(t *testing.T) {
	onEveryGuard(t, func(t *testing.T, guard secure.Guard) {
		nets := guardedWorld(t, guard, 2, 2)
		for _, r := range reductions() {
			for _, n := range []int{1, 7, 3001, 40_001} {
				if n > 3001 && (r.op != kernel.Sum || !r.first) {
					continue
				}
				theirs := r.values(1, n)
				with := r.values(2, n)
				want := r.want(nets[1].cfg.Kernels, with, theirs)
				into := make([]byte, len(with))
				if r.inPlace {
					into = with
				}
				tail := make([]byte, 5)
				run(t, nets, []*flow.Flow{
					{Sign: &flow.Sign{1}, To: 1, From: flow.None, Lead: 2, Send: [][]byte{theirs, []byte("after")}},
					{
						Sign: &flow.Sign{1}, To: flow.None, From: 0, Type: r.t, Op: r.op,
						Recv: []flow.Part{{Into: into, With: with, TheirsFirst: r.first, Divisor: r.divisor},
							{Into: tail}},
					},
				})
				if !bytes.Equal(into, want) || string(tail) != "after" {
					t.Errorf("%d elements, %+v: wrong result", n, r)
				}
			}
		}
	})
}

// Bytes arrive one at a time, so that every element and the sign are split. R12 of the fault
// matrix.
func TestDribble(t *testing.T) {
	n := rankTwo(t, 1)
	conn := dialAs(t, n, 0, 1)[0]
	r := reduction{t: kernel.I32, op: kernel.Sum}
	theirs := r.values(1, 50)
	with := r.values(2, 50)
	want := r.want(n.cfg.Kernels, with, theirs)
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
		Type: r.t,
		Op:   r.op,
		Recv: []flow.Part{{Into: with, With: with}, {Into: plain}},
	})
	if err != nil || !bytes.Equal(with, want) || string(plain) != "end" {
		t.Errorf("%q after the sums, %v", plain, err)
	}
}

func TestNoAllocation(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const runs = 50
	for stripes := 1; stripes <= 2; stripes++ {
		for _, size := range []int{8, 64 << 10, 4 << 20} {
			nets := world(t, 2, stripes)
			linkUp(t, nets)
			f := [2]*flow.Flow{}
			for rank := range f {
				f[rank] = allreduce(rank, make([]byte, size), make([]byte, size))
			}
			done := make(chan error, 1)
			go func() {
				var err error
				for i := 0; i < runs+2 && err == nil; i++ {
					err = nets[1].Run(f[1])
				}
				done <- err
			}()
			one := func() {
				if err := nets[0].Run(f[0]); err != nil {
					panic(err)
				}
			}
			one() // both ends have made what they keep
			allocated := testing.AllocsPerRun(runs, one)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if allocated > 0 {
				t.Errorf("%d bytes in %d stripes: %v allocations a flow", size, stripes, allocated)
			}
		}
	}
}

// allreduce is the flow of a rank of two that adds two vectors of float32.
func allreduce(rank int, mine, sum []byte) *flow.Flow {
	halves := [2][2]int{{0, len(mine) / 2}, {len(mine) / 2, len(mine)}}
	own := halves[rank]
	theirs := halves[1-rank]
	return &flow.Flow{
		Sign: &flow.Sign{1},
		To:   1 - rank,
		From: 1 - rank,
		Lead: 1,
		Send: [][]byte{mine[theirs[0]:theirs[1]], sum[own[0]:own[1]]},
		Recv: []flow.Part{
			{Into: sum[own[0]:own[1]], With: mine[own[0]:own[1]]},
			{Into: sum[theirs[0]:theirs[1]]},
		},
		Type: kernel.F32,
		Op:   kernel.Sum,
	}
}
