package algorithms_test

import (
	"bytes"
	"fmt"
	"math"
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

// trial is a collective of so many elements, or of bytes if it combines none, whose result is
// checked.
type trial struct {
	kind        collective.Kind
	count, root int
	inPlace     bool // of a reduction; an all-to-all of several pieces for each member
}

// length is of member i's part.
func (c trial) length(i int) int {
	switch c.kind {
	case collective.ReduceScatter:
		return 4 * max(0, c.count+i%3-1)
	case collective.AllGather:
		return i*i%5*c.count + i
	}
	return c.count
}

// cut returns consecutive parts of a vector.
func cut(vector []byte, parts int, length func(i int) int) (all [][]byte) {
	for i := range parts {
		all = append(all, vector[:length(i)])
		vector = vector[length(i):]
	}
	return all
}

// do does the collective as member me.
func (c trial) do(me int, team *algorithms.Team) error {
	size := team.Size()
	s := sign(c.kind.String())
	var src, dst, want []byte
	total := 0
	for i := range size {
		total += c.length(i)
	}
	start := func(from, count int) { // member me's values begin with that of element from
		src = floats(count, func(i int) float32 { return value(me, i+from) })
		dst = make([]byte, len(src))
		want = floats(count, func(i int) float32 { return sum(size, i+from, 2) })
	}
	var run func() error
	switch c.kind {
	case collective.AllReduce:
		start(0, c.count)
		run = func() error { return team.AllReduce(s, average(2), dst, src) }
	case collective.Reduce:
		if start(0, c.count); me != c.root {
			dst = nil
			want = nil
		}
		run = func() error { return team.Reduce(s, average(2), dst, src, c.root) }
	case collective.ReduceScatter:
		start(0, total/4)
		parts := cut(src, size, c.length)
		want = cut(want, size, c.length)[me]
		dst = make([]byte, len(want))
		if c.inPlace {
			dst = parts[me]
		}
		run = func() error { return team.ReduceScatter(s, average(2), dst, parts) }
	case collective.AllGather:
		dst = make([]byte, total)
		parts := cut(dst, size, c.length)
		for i := range parts {
			want = append(want, bytes.Repeat([]byte{byte('a' + i)}, c.length(i))...)
		}
		copy(parts[me], cut(want, size, c.length)[me])
		run = func() error { return team.AllGather(s, parts) }
	case collective.AllToAll:
		pieces := 1
		if c.inPlace {
			pieces = 3
		}
		for i := range size {
			for k := range pieces * c.count {
				src = append(src, byte(7*me+31*i+k))
				want = append(want, byte(7*i+31*me+k))
			}
		}
		dst = make([]byte, len(src))
		run = func() error {
			return team.AllToAll(s, cut(dst, size*pieces, c.length), cut(src, size*pieces, c.length))
		}
	case collective.Broadcast:
		want = bytes.Repeat([]byte{byte(c.root + 1)}, c.count)
		if dst = make([]byte, c.count); me == c.root {
			copy(dst, want)
		}
		run = func() error { return team.Broadcast(s, dst, c.root) }
	}
	inPlace := c.inPlace && c.kind.Reduces() && dst != nil
	if inPlace && c.kind != collective.ReduceScatter {
		dst = src
	}
	before := bytes.Clone(src)
	if err := run(); err != nil {
		return err
	}
	if !bytes.Equal(dst, want) || !inPlace && !bytes.Equal(src, before) {
		return fmt.Errorf("%+v: wrong result, or what was given is changed", c)
	}
	return nil
}

// trials are those of a collective among so many members.
func trials(kind collective.Kind, size int) (all []trial) {
	counts := map[collective.Kind][]int{
		collective.AllReduce:     {0, 1, 2, size, 1000, 20_011},
		collective.Reduce:        {0, 1, size, 1000, 100_003},
		collective.ReduceScatter: {0, 1, 100, 50_000, 1_200_000 / size},
		collective.AllGather:     {100},
		collective.AllToAll:      {0, 1, 100},
		collective.Broadcast:     {0, 1, 5000, 200_000},
	}[kind]
	for _, count := range counts {
		for root := range size {
			if root > 0 && (!kind.Rooted() || count > 100_000 && root > 1) {
				break
			}
			all = append(all, trial{kind, count, root, false}, trial{kind, count, root, true})
		}
	}
	return all
}

func TestEveryCollective(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			everyWay(t, kind, func(t *testing.T, only algorithms.Algorithm) {
				members := sizes()
				if kind == collective.AllToAll {
					members = append(members, 33)
				}
				for _, size := range members {
					for _, c := range trials(kind, size) {
						run(t, size, only, c.do)
					}
				}
			})
		})
	}
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
