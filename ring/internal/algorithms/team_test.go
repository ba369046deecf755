package algorithms_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/algorithms"
	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/flow"
	"github.com/gorun/gorun/ring/internal/kernel"
)

func sign(text string) *flow.Sign {
	var s flow.Sign
	copy(s[:], text)
	return &s
}

func sizes() []int { return []int{1, 2, 3, 4, 5, 6, 7, 8, 12, 13} }

// kinds are all collectives that have a choice.
func kinds() []collective.Kind {
	return []collective.Kind{collective.AllReduce, collective.ReduceScatter, collective.AllGather, collective.Broadcast,
		collective.Reduce, collective.AllToAll}
}

// candidates are the algorithms that can do a collective.
func candidates(kind collective.Kind) []algorithms.Algorithm {
	var all []algorithms.Algorithm
	for _, a := range algorithms.All() {
		if _, ok := lan().Time(kind, a, 3, 100, 0); ok {
			all = append(all, a)
		}
	}
	return all
}

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
func sum(size, i, divisor int) float32 { return value(size*(size+1)/2-1, i) / float32(divisor) }

// run runs body as every member of a team of the ranks 0, 10, 20 …, which has to use only.
func run(t *testing.T, size int, only algorithms.Algorithm,
	body func(me int, team *algorithms.Team) error) *simulation {
	t.Helper()
	s, err := newWorld(size, 10).simulate(network{Cost: lan()}, 0, func(me int, team *algorithms.Team) error {
		team.Tune(lan(), only)
		return body(me, team)
	})
	must.OK(t, err, size, "members,", only)
	return s
}

// everyWay runs test for every algorithm of a collective.
func everyWay(t *testing.T, kind collective.Kind, test func(t *testing.T, only algorithms.Algorithm)) {
	for _, a := range candidates(kind) {
		t.Run(a.String(), func(t *testing.T) { test(t, a) })
	}
}

func average(divisor int) algorithms.Reduction {
	return algorithms.Reduction{Type: kernel.F32, Op: kernel.Sum, Divisor: divisor}
}

func TestAllReduce(t *testing.T) {
	everyWay(t, collective.AllReduce, func(t *testing.T, only algorithms.Algorithm) {
		for _, size := range sizes() {
			for _, count := range []int{0, 1, 2, size, 1000, 20_011} {
				for _, inPlace := range []bool{false, true} {
					want := floats(count, func(i int) float32 { return sum(size, i, 2) })
					run(t, size, only, func(me int, team *algorithms.Team) error {
						src := floats(count, func(i int) float32 { return value(me, i) })
						dst := src
						before := bytes.Clone(src)
						if !inPlace {
							dst = make([]byte, len(src))
						}
						if err := team.AllReduce(sign("allreduce"), average(2), dst, src); err != nil {
							return err
						}
						if !inPlace && !bytes.Equal(src, before) {
							return fmt.Errorf("%d elements: src was changed", count)
						}
						if !bytes.Equal(dst, want) {
							return fmt.Errorf("%d elements, in place %v: wrong result", count, inPlace)
						}
						return nil
					})
				}
			}
		}
	})
}

func TestReduceToEveryRoot(t *testing.T) {
	everyWay(t, collective.Reduce, func(t *testing.T, only algorithms.Algorithm) {
		for _, size := range sizes() {
			for _, count := range []int{0, 1, size, 1000, 100_003} {
				for root := range size {
					if count > 1000 && root > 1 {
						continue
					}
					want := floats(count, func(i int) float32 { return sum(size, i, 2) })
					run(t, size, only, func(me int, team *algorithms.Team) error {
						src := floats(count, func(i int) float32 { return value(me, i) })
						before := bytes.Clone(src)
						var dst []byte
						switch {
						case me == root && count%2 == 0:
							dst = src
							before = want
						case me == root:
							dst = make([]byte, len(src))
						}
						if err := team.Reduce(sign("reduce"), average(2), dst, src, root); err != nil {
							return err
						}
						if !bytes.Equal(src, before) {
							return fmt.Errorf("%d elements to %d: src was changed", count, root)
						}
						if me == root && !bytes.Equal(dst, want) {
							return fmt.Errorf("%d elements to %d: wrong result", count, root)
						}
						return nil
					})
				}
			}
		}
	})
}

// Sums of these depend on their order, and NaNs keep the payload of the first.
func TestAllMembersGetTheSameBits(t *testing.T) {
	everyWay(t, collective.AllReduce, func(t *testing.T, only algorithms.Algorithm) {
		for _, size := range sizes()[1:] {
			for _, count := range []int{7, 2000, 30_000} {
				results := make([][]byte, size)
				run(t, size, only, func(me int, team *algorithms.Team) error {
					buf := floats(count, func(i int) float32 {
						if i%5 == 0 {
							return math.Float32frombits(0x7fc00000 + uint32(me))
						}
						return float32(math.Exp(float64((i*31+me*17)%40) - 20))
					})
					results[me] = buf
					return team.AllReduce(sign("bits"), average(0), buf, buf)
				})
				for me, got := range results {
					must.That(t, bytes.Equal(got, results[0]),
						"%d members, %d elements: member %d has other bits than member 0", size, count, me)
				}
			}
		}
	})
}

func TestReduceScatter(t *testing.T) {
	everyWay(t, collective.ReduceScatter, func(t *testing.T, only algorithms.Algorithm) {
		for _, size := range sizes() {
			for _, count := range []int{0, 1, 100, 50_000, 1_200_000 / size} { // of a part, give or take
				length := func(i int) int { return max(0, count+i%3-1) }
				run(t, size, only, func(me int, team *algorithms.Team) error {
					parts := make([][]byte, size)
					for i := range parts {
						parts[i] = floats(length(i), func(k int) float32 { return value(me, k+i) })
					}
					before := slices.Concat(parts...)
					dst := make([]byte, 4*length(me))
					if err := team.ReduceScatter(sign("rs"), average(2), dst, parts); err != nil {
						return err
					}
					if !bytes.Equal(slices.Concat(parts...), before) {
						return fmt.Errorf("%d elements: what was given is changed", count)
					}
					want := floats(length(me), func(k int) float32 { return sum(size, k+me, 2) })
					if !bytes.Equal(dst, want) {
						return fmt.Errorf("about %d elements: wrong result", count)
					}
					if err := team.ReduceScatter(sign("rs"), average(2), parts[me], parts); err != nil {
						return err
					}
					if !bytes.Equal(parts[me], want) {
						return fmt.Errorf("about %d elements: wrong result in place", count)
					}
					return nil
				})
			}
		}
	})
}

func TestAllGatherOfUnlikeParts(t *testing.T) {
	everyWay(t, collective.AllGather, func(t *testing.T, only algorithms.Algorithm) {
		for _, size := range sizes() {
			part := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, i*i%5*100+i) }
			run(t, size, only, func(me int, team *algorithms.Team) error {
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
						return fmt.Errorf("wrong part of member %d", i)
					}
				}
				return nil
			})
		}
	})
}

func TestAllToAll(t *testing.T) {
	everyWay(t, collective.AllToAll, func(t *testing.T, only algorithms.Algorithm) {
		for _, size := range append(sizes(), 33) {
			for _, pieces := range []int{1, 3} {
				for _, length := range []int{0, 1, 100} {
					block := func(from, to int) []byte {
						b := make([]byte, pieces*length)
						for i := range b {
							b[i] = byte(7*from + 31*to + i)
						}
						return b
					}
					cut := func(vector []byte) (all [][]byte) {
						for i := range size * pieces {
							all = append(all, vector[i*length:(i+1)*length])
						}
						return all
					}
					run(t, size, only, func(me int, team *algorithms.Team) error {
						var out, want []byte
						for i := range size {
							out = append(out, block(me, i)...)
							want = append(want, block(i, me)...)
						}
						in := make([]byte, len(out))
						before := bytes.Clone(out)
						if err := team.AllToAll(sign("a2a"), cut(in), cut(out)); err != nil {
							return err
						}
						if !bytes.Equal(out, before) {
							return fmt.Errorf("%d pieces of %d bytes: what was given is changed", pieces, length)
						}
						if !bytes.Equal(in, want) {
							return fmt.Errorf("%d pieces of %d bytes: wrong result", pieces, length)
						}
						return nil
					})
				}
			}
		}
	})
}

func TestBroadcastFromEveryRoot(t *testing.T) {
	everyWay(t, collective.Broadcast, func(t *testing.T, only algorithms.Algorithm) {
		for _, size := range sizes() {
			for _, count := range []int{0, 1, 5000, 200_000} {
				for root := range size {
					want := bytes.Repeat([]byte{byte(root + 1)}, count)
					run(t, size, only, func(me int, team *algorithms.Team) error {
						buf := make([]byte, count)
						if me == root {
							copy(buf, want)
						}
						if err := team.Broadcast(sign("bc"), buf, root); err != nil {
							return err
						}
						if !bytes.Equal(buf, want) {
							return fmt.Errorf("%d bytes from %d: wrong", count, root)
						}
						return nil
					})
				}
			}
		}
	})
}

func TestBarrierWaitsForAll(t *testing.T) {
	const late = 5e9
	for _, size := range sizes()[1:] {
		s, err := newWorld(size, 1).simulate(network{Cost: lan()}, 0, func(me int, team *algorithms.Team) error {
			if me == size-1 && size > 2 {
				// The last member waits for a message that arrives late.
				if err := team.Swap(sign("wait"), nil, flow.None, nil, 0, make([]byte, late/1000)); err != nil {
					return err
				}
			} else if me == 0 && size > 2 {
				if err := team.Swap(sign("wait"), nil, size-1, make([]byte, late/1000), flow.None, nil); err != nil {
					return err
				}
			}
			return team.Barrier(sign("barrier"))
		})
		must.OK(t, err)
		for me := range s.ranks {
			if s.ranks[me].clock < s.ranks[size-1].clock-4*lan().Alpha {
				t.Errorf("%d members: member %d left the barrier at %d, and the last one came at about %d", size, me,
					s.ranks[me].clock, s.ranks[size-1].clock)
			}
		}
	}
}

// A rank sends exactly the flows and bytes of the algorithm.
func TestFlowsAndBytes(t *testing.T) {
	const size = 8
	const bytes = 64 << 10
	tests := []struct {
		algorithm   algorithms.Algorithm
		flows, sent int
	}{
		{algorithms.Doubling, 3, 3 * bytes},
		{algorithms.Circulant, 6, 2 * 7 * bytes / 8},
		{algorithms.Ring, 1, 2 * 7 * bytes / 8},
	}
	for _, tt := range tests {
		s := run(t, size, tt.algorithm, func(me int, team *algorithms.Team) error {
			buf := floats(bytes/4, func(i int) float32 { return value(me, i) })
			return team.AllReduce(sign("cost"), average(0), buf, buf)
		})
		sent := s.ranks[0].bytes
		if flows := s.ranks[0].flows; flows != tt.flows || sent != tt.sent {
			t.Errorf("%v: %d flows with %d bytes, want %d with %d", tt.algorithm, flows, sent, tt.flows, tt.sent)
		}
	}
}
