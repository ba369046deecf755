//go:build !cgo || !linux

package ring_test

import (
	"errors"
	"testing"

	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

func useDevice(string) error { return ring.ErrNoGPU }

// Without cgo there are no devices, and all else is as ever.
func TestNoDeviceWithoutCgo(t *testing.T) {
	comms := ringtest.NewJob(t, 2).Join(t)
	ringtest.All(t, 2, func(rank int) error {
		if _, err := ring.NewDevice(ctx, comms[rank], 0); !errors.Is(err, ring.ErrNoGPU) {
			return err
		}
		return ring.Barrier(ctx, comms[rank])
	})
}
