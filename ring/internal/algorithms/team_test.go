package algorithms_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/gorun/gorun/ring/internal/algorithms"
	"github.com/gorun/gorun/ring/internal/flow"
	"github.com/gorun/gorun/ring/internal/kernel"
)

func sign(text string) *flow.Sign {
	var s flow.Sign
	copy(s[:], text)
	return &s
}

func sizes() []int { return []int{1, 2, 3, 4, 5, 6, 7, 8, 12, 13} }

// value returns member me's element i. Sums of values are exact.
func value(me, i int) float32 { return float32((me+1)*(i%97+1)) / 4 }

func floats(n int, of func(i int) float32) []byte {
	b := make([]float32, n)
	for i := range b {
		b[i] = of(i)
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(b))), 4*n)
}

// sum returns element i of an allreduce of all members' values.
func sum(size, i, divisor int) float32 {
	var s float32
	for me := range size {
		s += value(me, i)
	}
	return s / float32(divisor)
}

func TestAllReduceOfEverySizeByEveryAlgorithm(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	used := map[algorithms.Algorithm]bool{}
	for _, size := range sizes() {
		for _, count := range []int{0, 1, 2, size, 1000, 20_011, size*32768 + 7} {
			used[algorithms.Pick(size, 4*count)] = true
			for _, inPlace := range []bool{false, true} {
				run(t, size, func(me int, team *algorithms.Team) error {
					src := floats(count, func(i int) float32 { return value(me, i) })
					dst, before := src, bytes.Clone(src)
					if !inPlace {
						dst = floats(count, func(int) float32 { return 0 })
					}
					r := algorithms.Reduction{Type: kernel.F32, Op: kernel.Sum, Divisor: 2}
					if err := team.AllReduce(sign("allreduce"), r, dst, src); err != nil {
						return err
					}
					if !inPlace && !bytes.Equal(src, before) {
						return fmt.Errorf("%d members, %d elements: src was changed", size, count)
					}
					if want := floats(count, func(i int) float32 { return sum(size, i, 2) }); !bytes.Equal(dst, want) {
						return fmt.Errorf("%d members, %d elements, in place %v: wrong result", size, count, inPlace)
					}
					return nil
				})
			}
		}
	}
	for _, a := range []algorithms.Algorithm{algorithms.Doubling, algorithms.Circulant, algorithms.Ring} {
		if !used[a] {
			t.Errorf("no case went through %v", a)
		}
	}
}

// Sums of these depend on their order, and NaNs keep the payload of the first.
func TestAllMembersGetTheSameBits(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, size := range sizes()[1:] {
		for _, count := range []int{7, 2000, 30_000, 300_000} {
			results := make([][]byte, size)
			run(t, size, func(me int, team *algorithms.Team) error {
				buf := floats(count, func(i int) float32 {
					if i%5 == 0 {
						return math.Float32frombits(0x7fc00000 + uint32(me))
					}
					return float32(math.Exp(float64((i*31+me*17)%40) - 20))
				})
				results[me] = buf
				return team.AllReduce(sign("bits"), algorithms.Reduction{Type: kernel.F32, Op: kernel.Sum}, buf, buf)
			})
			for me, got := range results {
				if !bytes.Equal(got, results[0]) {
					t.Fatalf("%d members, %d elements: member %d has other bits than member 0", size, count, me)
				}
			}
		}
	}
}

func TestReduceScatter(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, size := range sizes() {
		for _, count := range []int{0, 1, 100, 50_000} { // of a part, give or take
			length := func(i int) int { return max(0, count+i%3-1) }
			run(t, size, func(me int, team *algorithms.Team) error {
				parts := make([][]byte, size)
				for i := range parts {
					parts[i] = floats(length(i), func(k int) float32 { return value(me, k+i) })
				}
				before := slices.Concat(parts...)
				dst := floats(length(me), func(int) float32 { return 0 })
				r := algorithms.Reduction{Type: kernel.F32, Op: kernel.Sum, Divisor: 2}
				if err := team.ReduceScatter(sign("rs"), r, dst, parts); err != nil {
					return err
				}
				if !bytes.Equal(slices.Concat(parts...), before) {
					return fmt.Errorf("%d members, %d elements: what was given is changed", size, count)
				}
				if want := floats(length(me), func(k int) float32 { return sum(size, k+me, 2) }); !bytes.Equal(dst, want) {
					return fmt.Errorf("%d members, about %d elements: wrong result", size, count)
				}
				return nil
			})
		}
	}
}

func TestAllGatherOfUnlikeParts(t *testing.T) {
	for _, size := range sizes() {
		part := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, i*i%5*100+i) }
		net := run(t, size, func(me int, team *algorithms.Team) error {
			parts := make([][]byte, size)
			for i := range parts {
				parts[i] = make([]byte, len(part(i)))
			}
			copy(parts[me], part(me))
			if err := team.AllGather(sign("ag"), parts); err != nil {
				return err
			}
			for i := range parts {
				if !bytes.Equal(parts[i], part(i)) {
					return fmt.Errorf("%d members: wrong part of member %d", size, i)
				}
			}
			return nil
		})
		rounds := 0
		for n := 1; n < size; n *= 2 {
			rounds++
		}
		if net.flows[0] != rounds {
			t.Errorf("%d members: %d rounds, want %d", size, net.flows[0], rounds)
		}
	}
}

func TestBroadcastFromEveryRoot(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, size := range sizes() {
		for _, count := range []int{0, 1, 5000, 200_000} {
			for root := range size {
				want := bytes.Repeat([]byte{byte(root + 1)}, count)
				run(t, size, func(me int, team *algorithms.Team) error {
					buf := make([]byte, count)
					if me == root {
						copy(buf, want)
					}
					if err := team.Broadcast(sign("bc"), buf, root); err != nil {
						return err
					}
					if !bytes.Equal(buf, want) {
						return fmt.Errorf("%d members, %d bytes from %d: wrong", size, count, root)
					}
					return nil
				})
			}
		}
	}
}

func TestBarrierWaitsForAll(t *testing.T) {
	for _, size := range sizes() {
		net := run(t, size, func(_ int, team *algorithms.Team) error { return team.Barrier(sign("barrier")) })
		// Members known to each member: a flow gives the receiver all that the sender knows.
		if size > 1 && net.flows[0] == 0 {
			t.Errorf("%d members: nobody waited", size)
		}
	}
}

// A rank sends exactly the bytes of the algorithm's cost.
func TestCost(t *testing.T) {
	const size = 8
	cost := func(bytes int) (flows, sent int) {
		net := run(t, size, func(me int, team *algorithms.Team) error {
			buf := floats(bytes/4, func(i int) float32 { return value(me, i) })
			return team.AllReduce(sign("cost"), algorithms.Reduction{Type: kernel.F32, Op: kernel.Sum}, buf, buf)
		})
		return net.flows[0], net.bytes[0] - net.flows[0]*flow.SignSize
	}
	tests := []struct {
		algorithm          algorithms.Algorithm
		bytes, flows, sent int
	}{
		{algorithms.Doubling, 1024, 3, 3 * 1024},
		{algorithms.Circulant, 64 << 10, 6, 2 * 7 * 8 << 10},
		{algorithms.Ring, 2 << 20, 1, 14 * 256 << 10},
	}
	for _, tt := range tests {
		if got := algorithms.Pick(size, tt.bytes); got != tt.algorithm {
			t.Fatalf("%d bytes: %v, want %v", tt.bytes, got, tt.algorithm)
		}
		if flows, sent := cost(tt.bytes); flows != tt.flows || sent != tt.sent {
			t.Errorf("%v of %d bytes: %d flows with %d bytes, want %d with %d", tt.algorithm, tt.bytes, flows, sent, tt.flows, tt.sent)
		}
	}
}
