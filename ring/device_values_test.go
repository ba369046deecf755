//go:build cgo && linux

package ring_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// given is element i of what a rank brings: from 1 to 4, or 0 and 1.
func given(t ring.Type, rank, i int) float64 {
	if t == ring.Bool {
		return float64((rank + i/3) % 2)
	}
	return float64((7*rank+i)%4 + 1)
}

// reduced is element i of the reduction of all ranks, times scale if that is not 0.
func reduced(t ring.Type, op ring.Op, scale float64, size, i int) float64 {
	v := folded(t, op, size, func(rank int) float64 { return given(t, rank, i) })
	if t == ring.Int8 || t == ring.Uint8 {
		v = float64(uint8(int(v)))
	}
	if scale != 0 {
		v *= scale
	}
	if !t.Float() {
		return math.Trunc(v)
	}
	return v
}

// deviceCase is a call as a rank makes it, and what it must get: the number of elements to give and
// to get, and each.
type deviceCase struct {
	call ring.DeviceCall
	in   int
	give func(i int) float64
	out  int
	want func(i int) float64
}

const deviceN = 37

// parts are unlike lengths, one of them 0, and where each part begins.
func parts(size int) (counts, at []int, total int) {
	for rank := range size {
		counts = append(counts, (rank*5+3)%11)
		at = append(at, total)
		if rank == 1 {
			counts[1] = 0
		}
		total += counts[rank]
	}
	return counts, at, total
}

// reductions are the calls that combine, for a type, an operation and a scale.
func reductions(t ring.Type, op ring.Op, scale float64, rank, size int) []deviceCase {
	fold := func(from int) func(int) float64 {
		return func(i int) float64 { return reduced(t, op, scale, size, from+i) }
	}
	mine := func(i int) float64 { return given(t, rank, i) }
	counts, at, total := parts(size)
	root := size - 1
	toRoot := deviceCase{in: deviceN, give: mine, want: fold(0)}
	if rank == root {
		toRoot.out = deviceN
	}
	toRoot.call.Kind = ring.KindReduce
	toRoot.call.Root = root
	all := []deviceCase{
		{in: deviceN, give: mine, out: deviceN, want: fold(0),
			call: ring.DeviceCall{Collective: ring.Collective{Kind: ring.KindAllReduce}}},
		{in: deviceN * size, give: mine, out: deviceN, want: fold(deviceN * rank),
			call: ring.DeviceCall{Collective: ring.Collective{Kind: ring.KindReduceScatter}}},
		{in: total, give: mine, out: counts[rank], want: fold(at[rank]),
			call: ring.DeviceCall{Collective: ring.Collective{Kind: ring.KindReduceScatter, Counts: counts}}},
		toRoot,
	}
	for i := range all {
		all[i].call.Type = t
		all[i].call.Op = op
		all[i].call.Scale = scale
	}
	return all
}

// moves are the calls that only move, for a type.
func moves(t ring.Type, rank, size int) []deviceCase {
	const n = deviceN
	counts, at, total := parts(size)
	root := size / 2
	mine := func(i int) float64 { return given(t, rank, i) }
	ofRank := func(from int) func(int) float64 { return func(i int) float64 { return given(t, from, i) } }
	even := func(i int) float64 { return given(t, i/n, i%n) }
	uneven := func(i int) float64 {
		r := size - 1
		for at[r] > i || counts[r] == 0 {
			r--
		}
		return given(t, r, i-at[r])
	}
	c := func(w ring.Collective) ring.DeviceCall { w.Type = t; return ring.DeviceCall{Collective: w} }
	atRoot := func(n int) int {
		if rank != root {
			return 0
		}
		return n
	}
	next := (rank + 1) % size
	before := (rank + size - 1) % size
	square := make([]int, size)
	for i := range square {
		square[i] = 3
	}
	return []deviceCase{
		{in: n, give: mine, out: n * size, want: even, call: c(ring.Collective{Kind: ring.KindAllGather})},
		{in: counts[rank], give: mine, out: total, want: uneven,
			call: c(ring.Collective{Kind: ring.KindAllGather, Counts: counts})},
		{in: n, give: mine, out: atRoot(n * size), want: even,
			call: c(ring.Collective{Kind: ring.KindGather, Root: root})},
		{in: counts[rank], give: mine, out: atRoot(total), want: uneven,
			call: c(ring.Collective{Kind: ring.KindGather, Root: root, Counts: counts})},
		{in: atRoot(n * size), give: mine, out: n, want: func(i int) float64 {
			return given(t, root, n*rank+i)
		}, call: c(ring.Collective{Kind: ring.KindScatter, Root: root})},
		{in: atRoot(total), give: mine, out: counts[rank], want: func(i int) float64 {
			return given(t, root, at[rank]+i)
		}, call: c(ring.Collective{Kind: ring.KindScatter, Root: root, Counts: counts})},
		{in: n * size, give: mine, out: n * size, want: func(i int) float64 {
			return given(t, i/n, n*rank+i%n)
		}, call: c(ring.Collective{Kind: ring.KindAllToAll})},
		{in: 3 * size, give: mine, out: 3 * size, want: func(i int) float64 {
			return given(t, i/3, 3*rank+i%3)
		}, call: c(ring.Collective{Kind: ring.KindAllToAll, Counts: square, Sends: square})},
		{out: n, give: mine, want: ofRank(root), call: c(ring.Collective{Kind: ring.KindBroadcast, Root: root})},
		{in: n, give: mine, out: n, want: ofRank(before),
			call: c(ring.Collective{Kind: ring.KindMessage, To: next, From: before})},
	}
}

// deviceSeat is a rank's device and the memory that its cases use.
type deviceSeat struct {
	d        *ring.Device
	s        ring.Stream
	src, dst uintptr
}

const seatBytes = 8 * deviceN * 8

// make makes one call, and looks at what came of it.
func (s *deviceSeat) make(c deviceCase) error {
	t := c.call.Type
	size := t.Size()
	encode := func(b []byte, v float64) {
		copy(b[:size], binary.LittleEndian.AppendUint64(nil, bitsOf(t, v)))
	}
	src := make([]uint8, c.in*size)
	dst := make([]uint8, c.out*size)
	for i := range c.in {
		encode(src[i*size:], c.give(i))
	}
	given := src
	c.call.Src = ring.DeviceBuffer(s.src, c.in)
	c.call.Dst = ring.DeviceBuffer(s.dst, c.out)
	if c.call.Kind == ring.KindBroadcast {
		given = make([]uint8, len(dst))
		for i := range c.out {
			encode(given[i*size:], c.give(i))
		}
		if err := ring.CopyToDevice(ctx, s.d, s.s, s.dst, given); err != nil {
			return err
		}
		c.call.Src = ring.Buffer{}
	} else if err := ring.CopyToDevice(ctx, s.d, s.s, s.src, src); err != nil {
		return err
	}
	if err := s.d.Do(ctx, s.s, c.call); err != nil {
		return err
	}
	after := make([]uint8, len(src))
	if err := ring.CopyFromDevice(ctx, s.d, s.s, dst, s.dst); err != nil {
		return err
	}
	if err := ring.CopyFromDevice(ctx, s.d, s.s, after, s.src); err != nil {
		return err
	}
	if string(after) != string(src) {
		return fmt.Errorf("%v %v of %v: src has changed", c.call.Kind, c.call.Op, t)
	}
	near := map[ring.Type]float64{ring.Float64: 1e-12, ring.Float32: 1e-6, ring.Float16: 1e-2, ring.BFloat16: 2e-2}[t]
	for i := range c.out {
		got := numberOf(t, dst[i*size:])
		want := c.want(i)
		if math.Abs(got-want) > near*math.Abs(want) {
			return fmt.Errorf("%v %v of %v, scale %v, counts %v: element %d is %v, want %v", c.call.Kind, c.call.Op, t,
				c.call.Scale, c.call.Counts, i, got, want)
		}
	}
	return nil
}

// deviceValues makes every call on every type, and returns how many.
func deviceValues(d *ring.Device, rank, size int) (n int, err error) {
	s := &deviceSeat{d: d}
	if s.src, err = d.Alloc(seatBytes); err != nil {
		return 0, err
	}
	if s.dst, err = d.Alloc(seatBytes); err != nil {
		return 0, err
	}
	if s.s, err = d.NewStream(); err != nil {
		return 0, err
	}
	for t := ring.Float32; t <= ring.Bool; t++ {
		var cases []deviceCase
		// moving bytes does not depend on their type: four sizes suffice
		if slices.Contains([]ring.Type{ring.Float64, ring.Float32, ring.Int16, ring.Bool}, t) {
			cases = moves(t, rank, size)
		}
		for op := ring.Sum; op <= ring.BXor; op++ {
			if !defined(t, op) {
				continue
			}
			cases = append(cases, reductions(t, op, 0, rank, size)...)
			if t.Float() && (op == ring.Sum || op == ring.Avg) {
				cases = append(cases, reductions(t, op, 0.25, rank, size)...)
			}
		}
		for _, c := range cases {
			if err := s.make(c); err != nil {
				return n, fmt.Errorf("rank %d: %w", rank, err)
			}
			n++
		}
	}
	if err := d.Wait(ctx); err != nil {
		return n, err
	}
	if err := d.FreeStream(s.s); err != nil {
		return n, err
	}
	if err := d.Free(s.src); err != nil {
		return n, err
	}
	return n, d.Free(s.dst)
}

func TestDeviceValues(t *testing.T) {
	if testing.Short() {
		t.Skip("takes many seconds")
	}
	onDevices(t, []int{1, 2, 4}, func(t *testing.T, all []*ring.Device) {
		err := ringtest.Each(len(all), func(rank int) error {
			n, err := deviceValues(all[rank], rank, len(all))
			if err == nil && n < 300 {
				err = fmt.Errorf("%d calls were made", n)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}
