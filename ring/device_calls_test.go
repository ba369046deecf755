//go:build cgo && linux

package ring_test

import (
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

// The named functions are those of Do.
func TestDeviceFunctions(t *testing.T) {
	onDevices(t, []int{2}, func(t *testing.T, all []*ring.Device) {
		ringtest.All(t, 2, func(rank int) error {
			d := all[rank]
			at, err := d.Alloc(1 << 10)
			if err != nil {
				return err
			}
			defer d.Free(at)
			other := at + 512
			peer := 1 - rank
			one := float32(rank + 1)
			two := float32(rank + 3)
			steps := []struct {
				name string
				call func() error
				want []float32
			}{
				{"allreduce", func() error {
					return d.AllReduce(ctx, 0, other, at, 2, ring.Float32, ring.Max)
				}, []float32{2, 4}},
				{"reduce-scatter", func() error {
					return d.ReduceScatter(ctx, 0, other, at, 1, ring.Float32, ring.Sum)
				}, [][]float32{{3}, {7}}[rank]},
				{"allgather", func() error {
					return d.AllGather(ctx, 0, other, at, 2, ring.Float32)
				}, []float32{1, 3, 2, 4}},
				{"alltoall", func() error {
					return d.AllToAll(ctx, 0, other, at, 1, ring.Float32)
				}, [][]float32{{1, 2}, {3, 4}}[rank]},
				{"broadcast", func() error {
					if err := ring.CopyToDevice(ctx, d, 0, other, []float32{one, two}); err != nil {
						return err
					}
					return d.Broadcast(ctx, 0, other, 2, ring.Float32, 1)
				}, []float32{2, 4}},
				{"message", func() error {
					if rank == 0 {
						if err := ring.CopyToDevice(ctx, d, 0, other, []float32{5}); err != nil {
							return err
						}
						return d.Send(ctx, 0, at, 2, ring.Float32, peer)
					}
					return d.Recv(ctx, 0, other, 2, ring.Float32, peer)
				}, [][]float32{{5}, {1, 3}}[rank]},
				{"reduce", func() error {
					if rank == 1 {
						if err := ring.CopyToDevice(ctx, d, 0, other, []float32{9}); err != nil {
							return err
						}
					}
					return d.Reduce(ctx, 0, other, at, 2, ring.Float32, ring.Sum, 0)
				}, [][]float32{{3, 7}, {9}}[rank]},
			}
			for _, s := range steps {
				if err := checkStep(d, at, other, []float32{one, two}, s.name, s.call, s.want); err != nil {
					return err
				}
			}
			return d.Wait(ctx)
		})
	})
}

func checkStep(d *ring.Device, at, other uintptr, mine []float32, name string, call func() error,
	want []float32) error {
	if err := ring.CopyToDevice(ctx, d, 0, at, mine); err != nil {
		return err
	}
	if err := call(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := d.Sync(ctx, 0); err != nil {
		return err
	}
	got := make([]float32, len(want))
	if err := ring.CopyFromDevice(ctx, d, 0, got, other); err != nil {
		return err
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("%s: %v, want %v", name, got, want)
	}
	return nil
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
		if err := d.Do(ctx, 0, c(good, 0), call); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	check.OK(t, d.Do(ctx, 0, c(good, 0)))
}
