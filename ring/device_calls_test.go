//go:build cgo && linux

package ring_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// Many tensors in one launch, of which NCCL has not all.
func TestDeviceManyTensorsAtOnce(t *testing.T) {
	must.HaveTime(t)
	onDevices(t, []int{1, 3}, func(t *testing.T, all []*ring.Device) {
		const tensors = 20
		const n = 100
		ringtest.All(t, len(all), func(rank int) error {
			d := all[rank]
			at, err := d.Alloc(tensors * n * 4)
			if err != nil {
				return err
			}
			defer d.Free(at)
			var calls []ring.DeviceCall
			mine := make([]int32, tensors*n)
			for i := range tensors {
				w := ring.Collective{Kind: ring.KindAllReduce, Type: ring.Int32, Op: ring.Sum}
				if i%7 == 3 {
					w.Op = ring.BXor
				}
				if i%5 == 4 {
					w = ring.Collective{Kind: ring.KindBroadcast, Type: ring.Int32, Root: len(all) - 1}
				}
				w.Dst = ring.DeviceBuffer(at+uintptr(i*n*4), n)
				if w.Kind == ring.KindAllReduce {
					w.Src = w.Dst
				}
				calls = append(calls, ring.DeviceCall{Collective: w})
				for k := range n {
					mine[i*n+k] = int32(rank*1000 + i)
				}
			}
			if err := ring.CopyToDevice(ctx, d, 0, at, mine); err != nil {
				return err
			}
			if err := d.Do(ctx, 0, calls...); err != nil {
				return err
			}
			if err := ring.CopyFromDevice(ctx, d, 0, mine, at); err != nil {
				return err
			}
			for i, call := range calls {
				want := int32(0)
				for r := range len(all) {
					switch v := int32(r*1000 + i); {
					case call.Kind == ring.KindBroadcast:
						want = v
					case call.Op == ring.BXor:
						want ^= v
					default:
						want += v
					}
				}
				if mine[i*n] != want || mine[i*n+n-1] != want {
					return fmt.Errorf("tensor %d, %v %v: %v, want %v", i, call.Kind, call.Op, mine[i*n], want)
				}
			}
			return nil
		})
	})
}

// Send and Recv are the halves of a message.
func TestDeviceSendAndRecv(t *testing.T) {
	onDevices(t, []int{2}, func(t *testing.T, all []*ring.Device) {
		ringtest.All(t, 2, func(rank int) error {
			d := all[rank]
			at, err := d.Alloc(8)
			if err != nil {
				return err
			}
			defer d.Free(at)
			mine := []float32{float32(rank + 1), float32(rank + 3)}
			if err := ring.CopyToDevice(ctx, d, 0, at, mine); err != nil {
				return err
			}
			if rank == 0 {
				return errors.Join(d.Send(ctx, 0, at, 2, ring.Float32, 1), d.Wait(ctx))
			}
			err = errors.Join(d.Recv(ctx, 0, at, 2, ring.Float32, 0), ring.CopyFromDevice(ctx, d, 0, mine, at))
			return errors.Join(err, same(mine, []float32{1, 3}))
		})
	})
}

// Wrong arguments are refused before anything is sent, and the device works on.
func TestDeviceRefuses(t *testing.T) {
	all := devices(t, newDeviceJob(t, 1).comms(t))
	d := all[0]
	at := memory(t, d, 64)
	buf := ring.DeviceBuffer(at, 4)
	c := func(w ring.Collective, scale float64) ring.DeviceCall {
		return ring.DeviceCall{Collective: w, Scale: scale}
	}
	good := collective(ring.KindAllReduce, ring.Float32, ring.Sum, buf, buf)
	scaled := good
	bits := good
	nowhere := good
	short := good
	scaled.Op = ring.Max
	bits.Op = ring.BXor
	nowhere.Dst.Ptr = nil
	nowhere.Src.Ptr = nil
	short.Src.Len = 3
	for want, call := range map[string]ring.DeviceCall{
		"barrier":            c(ring.Collective{Kind: ring.KindBarrier}, 0),
		"a scale is for sum": c(scaled, 2),
		"no bxor of float32": c(bits, 0),
		"at 0x0":             c(nowhere, 0),
		"and src 3":          c(short, 0),
	} {
		err := d.Do(ctx, 0, c(good, 0), call)
		check.That(t, err != nil && strings.Contains(err.Error(), want), "%v, want %q", err, want)
	}
	check.OK(t, d.Do(ctx, 0, c(good, 0)))
}
