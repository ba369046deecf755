package recorder

import (
	"bytes"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// The clocks of a record.
const (
	nanoseconds uint32 = 1 + iota // nanoseconds of CLOCK_MONOTONIC
	counter                       // the processor's counter, which is faster to read
)

// clock measures time in ticks.
type clock struct {
	kind  uint32
	base  uint64 // nanoseconds at start
	start time.Time
}

// newClock returns the processor's counter if the kernel itself trusts it to be the same on all
// processors.
func newClock() clock {
	c := clock{kind: nanoseconds, base: monotonic(), start: time.Now()}
	text, _ := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	if hasCounter && slices.Contains([]string{"tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"},
		string(bytes.TrimSpace(text))) {
		c.kind = counter
	}
	return c
}

func (c *clock) now() uint64 {
	if c.kind == counter {
		return readCounter()
	}
	return c.base + uint64(time.Since(c.start))
}

func monotonic() uint64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail
	return uint64(t.Nano())
}
