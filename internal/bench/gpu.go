package bench

import (
	"context"
	"errors"
	"os"
	"strings"
	"unsafe"

	"github.com/gorun/gorun/ring"
)

// gpu is a rank's GPU, and a copy in its memory of what a benchmark has in the host's.
type gpu struct {
	device *ring.Device
	stream ring.Stream
	host   [2][]byte
	at     [2]uintptr
}

// newGPU joins the GPU of each rank and takes memory there.
func newGPU(ctx context.Context, c *ring.Comm, host [2][]byte) (g *gpu, err error) {
	visible, set := os.LookupEnv("CUDA_VISIBLE_DEVICES")
	g = &gpu{host: host}
	if g.device, err = ring.NewDevice(ctx, c, ordinal(c.LocalRank(), visible, set)); err != nil {
		return nil, err
	}
	g.stream, err = g.device.NewStream()
	for i := range g.at {
		if err == nil {
			g.at[i], err = g.device.Alloc(len(host[i]))
		}
	}
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// ordinal returns the number of a rank's GPU among the visible ones: its local rank, modulo their
// number.
func ordinal(localRank int, visible string, set bool) int {
	if !set {
		return localRank
	}
	return localRank % (strings.Count(visible, ",") + 1)
}

func (g *gpu) close() error {
	var errs []error
	for _, at := range g.at {
		if at != 0 {
			errs = append(errs, g.device.Free(at))
		}
	}
	if g.stream != 0 {
		errs = append(errs, g.device.FreeStream(g.stream))
	}
	return errors.Join(append(errs, g.device.Close())...)
}

// launch enqueues a call on the copy of its memory.
func (g *gpu) launch(ctx context.Context, w ring.Collective) error {
	w.Dst = g.copyOf(w.Dst)
	w.Src = g.copyOf(w.Src)
	return g.device.Do(ctx, g.stream, ring.DeviceCall{Collective: w})
}

// copyOf is where on the GPU b's copy is.
func (g *gpu) copyOf(b ring.Buffer) ring.Buffer {
	for i, host := range g.host {
		if off := uintptr(b.Ptr) - uintptr(unsafe.Pointer(unsafe.SliceData(host))); off < uintptr(len(host)) {
			return ring.DeviceBuffer(g.at[i]+off, b.Len)
		}
	}
	return ring.Buffer{} // an empty vector
}

// bring copies all memory to the GPU. A nil gpu has nothing to do.
func (g *gpu) bring(ctx context.Context) error {
	if g == nil {
		return nil
	}
	var errs []error
	for i, host := range g.host {
		errs = append(errs, ring.CopyToDevice(ctx, g.device, g.stream, g.at[i], host))
	}
	return errors.Join(errs...)
}

// fetch copies all memory back.
func (g *gpu) fetch(ctx context.Context) error {
	if g == nil {
		return nil
	}
	var errs []error
	for i, host := range g.host {
		errs = append(errs, ring.CopyFromDevice(ctx, g.device, g.stream, host, g.at[i]))
	}
	return errors.Join(errs...)
}
