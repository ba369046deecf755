//go:build cgo && linux

package ring_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// deviceSeat is a rank's device, and memory of it for what a call takes and gives.
type deviceSeat struct {
	d        *ring.Device
	s        ring.Stream
	src, dst uintptr
}

const (
	deviceN   = 37
	seatBytes = 64 << 10
)

// bytesIn is the memory of b.
func bytesIn(b ring.Buffer, typ ring.Type) []byte {
	return unsafe.Slice((*byte)(b.Ptr), b.Len*typ.Size())
}

// do makes a call on copies of its memory on the device, and copies back what is there afterwards.
func (s *deviceSeat) do(w ring.Collective, scale float64, launch func(call ring.DeviceCall) error) error {
	src := bytesIn(w.Src, w.Type)
	dst := bytesIn(w.Dst, w.Type)
	at := s.src
	if into := uintptr(w.Src.Ptr) - uintptr(w.Dst.Ptr); into < uintptr(len(dst)) {
		at = s.dst + into
	}
	call := ring.DeviceCall{Collective: w, Scale: scale}
	call.Dst = ring.DeviceBuffer(s.dst, w.Dst.Len)
	if w.Kind != ring.KindBroadcast {
		call.Src = ring.DeviceBuffer(at, w.Src.Len)
	}
	for _, step := range []func() error{
		func() error { return ring.CopyToDevice(ctx, s.d, s.s, s.dst, dst) },
		func() error { return ring.CopyToDevice(ctx, s.d, s.s, at, src) },
		func() error { return launch(call) },
		func() error { return ring.CopyFromDevice(ctx, s.d, s.s, dst, s.dst) },
		func() error { return ring.CopyFromDevice(ctx, s.d, s.s, src, at) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (s *deviceSeat) plain(call ring.DeviceCall) error { return s.d.Do(ctx, s.s, call) }

// byName makes the call by the function that is named after its kind, if its parts are alike.
func (s *deviceSeat) byName(call ring.DeviceCall) error {
	dst := uintptr(call.Dst.Ptr)
	src := uintptr(call.Src.Ptr)
	switch {
	case call.Counts != nil:
	case call.Kind == ring.KindAllReduce:
		return s.d.AllReduce(ctx, s.s, dst, src, call.Dst.Len, call.Type, call.Op)
	case call.Kind == ring.KindReduce:
		return s.d.Reduce(ctx, s.s, dst, src, call.Src.Len, call.Type, call.Op, call.Root)
	case call.Kind == ring.KindReduceScatter:
		return s.d.ReduceScatter(ctx, s.s, dst, src, call.Dst.Len, call.Type, call.Op)
	case call.Kind == ring.KindAllGather:
		return s.d.AllGather(ctx, s.s, dst, src, call.Src.Len, call.Type)
	case call.Kind == ring.KindBroadcast:
		return s.d.Broadcast(ctx, s.s, dst, call.Dst.Len, call.Type, call.Root)
	case call.Kind == ring.KindAllToAll:
		return s.d.AllToAll(ctx, s.s, dst, src, deviceN, call.Type)
	}
	return s.d.Do(ctx, s.s, call)
}

// everyForm makes calls of all kinds, and those that combine with a scale too.
func (s *deviceSeat) everyForm(rank, size int) error {
	for _, f := range forms() {
		if f.kind == ring.KindBarrier {
			continue
		}
		for _, root := range everyRank(size) {
			at := position{
				rank: rank,
				size: size,
				root: root,
				n:    deviceN,
			}
			for _, launch := range []func(ring.DeviceCall) error{s.plain, s.byName} {
				w := f.fill(at, heap)
				if err := s.do(w, 0, launch); err != nil {
					return fmt.Errorf("%s: %w", f.name, err)
				}
				if err := f.check(at, w); err != nil {
					return fmt.Errorf("root %d: %w", root, err)
				}
			}
			for _, op := range []ring.Op{ring.Sum, ring.Avg} {
				if f.op == 0 {
					break
				}
				scale := 0.25
				if op == ring.Avg {
					scale *= float64(size)
				}
				w := f.fill(at, heap)
				w.Op = op
				if err := s.do(w, scale, s.plain); err != nil {
					return fmt.Errorf("%s, scaled: %w", f.name, err)
				}
				for i, got := range elements(w.Dst) {
					if want := f.want(at, i) / 4; math.Abs(float64(got-want)) > 1e-6*float64(want) {
						return fmt.Errorf("%s of %v, scaled: element %d is %v, want %v", f.name, op, i, got, want)
					}
				}
			}
		}
	}
	return nil
}

// everyType combines elements of all types by all operations, and adds those with a fraction with a
// scale too.
func (s *deviceSeat) everyType(rank, size int) error {
	for typ := ring.Float32; typ <= ring.Bool; typ++ {
		for op := ring.Sum; op <= ring.BXor; op++ {
			if !defined(typ, op) {
				continue
			}
			if err := s.combine(typ, op, 0, rank, size); err != nil {
				return err
			}
			if op == ring.Sum && typ.Float() {
				if err := s.combine(typ, op, 0.25, rank, size); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// combine makes an allreduce, with a scale if that is not 0.
func (s *deviceSeat) combine(typ ring.Type, op ring.Op, scale float64, rank, size int) error {
	var v []byte
	for i := range deviceN {
		v = binary.LittleEndian.AppendUint64(v, bitsOf(typ, small(typ, rank, i)))[:(i+1)*typ.Size()]
	}
	b := ring.Buffer{Ptr: unsafe.Pointer(&v[0]), Len: deviceN}
	if err := s.do(collective(ring.KindAllReduce, typ, op, b, b), scale, s.plain); err != nil {
		return fmt.Errorf("%v of %v: %w", op, typ, err)
	}
	for i := range deviceN {
		want, exact := exactly(typ, op, size, i)
		if scale != 0 {
			want *= scale
		}
		bits := binary.LittleEndian.AppendUint64(nil, bitsOf(typ, want))[:typ.Size()]
		if got := v[i*typ.Size():][:typ.Size()]; exact && !bytes.Equal(got, bits) {
			return fmt.Errorf("%v of %v, scale %v: element %d is %x, want %v, %x", op, typ, scale, i, got, want, bits)
		}
	}
	return nil
}

// deviceValues makes every call, and every reduction of every type.
func deviceValues(d *ring.Device, rank, size int) (err error) {
	s := &deviceSeat{d: d}
	if s.src, err = d.Alloc(seatBytes); err != nil {
		return err
	}
	if s.dst, err = d.Alloc(seatBytes); err != nil {
		return err
	}
	if s.s, err = d.NewStream(); err != nil {
		return err
	}
	if err = s.everyForm(rank, size); err == nil {
		err = s.everyType(rank, size)
	}
	if err != nil {
		return fmt.Errorf("rank %d: %w", rank, err)
	}
	return errors.Join(d.Wait(ctx), d.FreeStream(s.s), d.Free(s.src), d.Free(s.dst))
}

// TestEveryOnDevices of ring/capi makes every kind of call with every type.
func TestDeviceValues(t *testing.T) {
	must.HaveTime(t)
	onDevices(t, []int{1, 2, 4}, func(t *testing.T, all []*ring.Device) {
		ringtest.All(t, len(all), func(rank int) error { return deviceValues(all[rank], rank, len(all)) })
	})
}
