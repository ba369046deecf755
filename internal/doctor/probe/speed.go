package probe

import (
	"context"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/doctor"
)

// Sizes of the kernels: a copy must not fit the caches of a core, and a slice must be much longer
// than the resolution of the clock.
const (
	copyBytes = 128 << 20 // bytes of all cores together, half read and half written
	slice     = 4 * time.Millisecond
	minSlices = 8 // a busy host takes longer for them
)

// speed runs each kernel for about budget on all cores at once. The best slice of each core counts,
// by the CPU time of its thread: it shows what the hardware can do. Share reports what other
// programs take.
func speed(ctx context.Context, budget time.Duration) doctor.Speed {
	cores := runtime.NumCPU()
	each := max(copyBytes/cores/2, 4<<20)
	copied, shareCopy := onAllCores(ctx, cores, budget, func() func() float64 {
		memory := make([]byte, 2*each)
		inLargePages(memory) // with small pages the first writes take longer than the copies
		// The first write to a page takes the kernel long. It is done here, before the clock
		// starts.
		memory[0] = 1
		for done := 1; done < len(memory); done *= 2 {
			copy(memory[done:], memory[:done])
		}
		from := memory[:each]
		to := memory[each:]
		const part = 1 << 20
		at := 0
		return func() float64 {
			copy(to[at:at+part], from[at:at+part])
			at = (at + part) % each
			return 2 * part
		}
	})
	flops, shareFlops := onAllCores(ctx, cores, budget, func() func() float64 {
		x := [8]float64{1, 2, 3, 4, 5, 6, 7, 8}
		return func() float64 { return multiplyAdd(&x) }
	})
	return doctor.Speed{Copy: copied, Flops: flops, Share: min(shareCopy, shareFlops)}
}

// multiplyAdd does some floating-point operations, in eight chains that do not wait for each other,
// and returns how many.
func multiplyAdd(x *[8]float64) float64 {
	const turns = 10_000
	a := x[0]
	b := x[1]
	c := x[2]
	d := x[3]
	e := x[4]
	f := x[5]
	g := x[6]
	h := x[7]
	for range turns {
		a = a*0.999 + 0.5
		b = b*0.999 + 0.5
		c = c*0.999 + 0.5
		d = d*0.999 + 0.5
		e = e*0.999 + 0.5
		f = f*0.999 + 0.5
		g = g*0.999 + 0.5
		h = h*0.999 + 0.5
	}
	*x = [8]float64{a, b, c, d, e, f, g, h}
	return 2 * 8 * turns
}

// onAllCores runs a kernel on every core and returns the sum of their best slices, in units per
// second, and in which part of the time it had the cores.
func onAllCores(ctx context.Context, cores int, budget time.Duration, kernel func() func() float64) (sum,
	share float64) {
	runtime.GOMAXPROCS(cores) // gorun leaves it low where it only waits
	best := make([]float64, cores)
	ran := make([]time.Duration, cores)
	took := make([]time.Duration, cores)
	var wg sync.WaitGroup
	for core := range cores {
		wg.Go(func() {
			runtime.LockOSThread() // the thread's CPU time is measured
			defer runtime.UnlockOSThread()
			step := kernel()
			began := time.Now()
			used := threadTime()
			for n := 0; ctx.Err() == nil && (time.Since(began) < budget || n < minSlices &&
				time.Since(began) < 4*budget); n++ {
				best[core] = max(best[core], timed(step))
			}
			ran[core] = threadTime() - used
			took[core] = time.Since(began)
		})
	}
	wg.Wait()
	var cpu, wall time.Duration
	for core, b := range best {
		sum += b
		cpu += ran[core]
		wall += took[core]
	}
	return sum, min(cpu.Seconds()/max(wall.Seconds(), 1e-9), 1)
}

// timed runs steps for one slice.
func timed(step func() float64) float64 {
	began := threadTime()
	done := 0.0
	for threadTime()-began < slice {
		done += step()
	}
	return done / (threadTime() - began).Seconds()
}

// threadTime is the CPU time of the calling thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
