//go:build cgo && linux

package ring_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// After Wait all is done that was launched, whoever looks. NCCL is slow here, and takes the second
// launch only when the first is over.
func TestDeviceWaitCoversLaunchedWork(t *testing.T) {
	must.HaveTime(t)
	for _, env := range []string{"RING_DEVICE=nccl", "RING_DEVICE=host"} {
		t.Run(env, func(t *testing.T) {
			t.Setenv("STANDIN_POLLS", "*:300")
			t.Setenv("STANDIN_SLOW", "20000")
			t.Setenv("STANDIN_SLOW_COPY", "20000")
			all := devices(t, newDeviceJob(t, 2, env).comms(t))
			ringtest.All(t, 2, func(rank int) error {
				d := all[rank]
				at, err := d.Alloc(64)
				if err != nil {
					return err
				}
				if err := ring.CopyToDevice(ctx, d, 0, at, []int32{int32(rank + 1)}); err != nil {
					return err
				}
				for want := int32(3); want < 20; want *= 2 {
					if err := d.AllReduce(ctx, 0, at, at, 1, ring.Int32, ring.Sum); err != nil {
						return err
					}
					if want == 3 {
						continue // and launch the next one
					}
					if err := d.Wait(ctx); err != nil {
						return err
					}
					// A copy would wait for it. The stand-in's memory can be read as it is.
					if got := *(*int32)(ring.DeviceBuffer(at, 1).Ptr); got != want {
						return fmt.Errorf("after Wait it is %d, want %d", got, want)
					}
				}
				return nil
			})
		})
	}
}

// PyTorch captures a graph in another thread: who asks for an event then without care gets an
// error, and ends the capture.
func TestDeviceBesideACapture(t *testing.T) {
	t.Setenv("STANDIN_CAPTURE", "1")
	t.Setenv("STANDIN_SLOW", "30000") // so that the watch asks too
	onDevices(t, []int{2}, func(t *testing.T, all []*ring.Device) {
		ringtest.All(t, len(all), func(rank int) error {
			at, err := all[rank].Alloc(8)
			if err == nil {
				err = all[rank].AllReduce(ctx, 0, at, at, 1, ring.Float32, ring.Sum)
			}
			if err == nil {
				time.Sleep(50 * time.Millisecond)
				err = errors.Join(all[rank].Wait(ctx), all[rank].Sync(ctx, 0), all[rank].Free(at))
			}
			return err
		})
	})
}
