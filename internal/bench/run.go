package bench

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/gorun/gorun/ring"
)

// Run measures the collectives of opts on c. All ranks of c call it with equal options, and emit
// gets the rows on each. A size that does not divide among the ranks is rounded down, and left out
// if a rank would get nothing.
func Run(ctx context.Context, c *ring.Comm, opts Options, emit func(Row)) (err error) {
	what, all, err := opts.resolve()
	if err != nil {
		return err
	}
	memory := [2][]byte{aligned(opts.Max), aligned(opts.Max)}
	var on *gpu
	if opts.Device == "cuda" {
		if on, err = newGPU(ctx, c, memory); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, on.close()) }()
	}
	var yardstick *wire
	if opts.Wire && c.Size() > 1 {
		if yardstick, err = newWire(ctx, c, memory); err != nil {
			return fmt.Errorf("connect two ranks by a plain socket: %w", err)
		}
		defer func() { err = errors.Join(err, yardstick.close()) }()
	}
	rows := 0
	for _, combo := range all {
		for _, bytes := range opts.sizes(what) {
			for _, inPlace := range []bool{false, true} {
				t := newTrial(c, what, combo, memory, bytes, inPlace)
				if t == nil {
					continue
				}
				t.wire = yardstick
				if t.on = on; on != nil {
					t.row.Device = on.device.String()
				}
				row, err := t.run(ctx, opts)
				if err != nil {
					return fmt.Errorf("%s of %d bytes: %w", what.name, bytes, err)
				}
				emit(row)
				rows++
			}
		}
	}
	if rows == 0 {
		return fmt.Errorf("%s of up to %d bytes leaves %d ranks nothing each: ask for larger sizes", what.name,
			opts.Max, c.Size())
	}
	return nil
}

// aligned is n bytes that may hold any type.
func aligned(n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(make([]uint64, (n+7)/8)))), n)
}
