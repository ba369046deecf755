package doctor

import (
	"fmt"

	"github.com/gorun/gorun/internal/prose"
)

func size(n int64) string {
	if n >= mib {
		return prose.Size(n)
	}
	return fmt.Sprintf("%.3g KiB", float64(n)/1024)
}

func rate(perSecond float64) string {
	if perSecond >= 1e9 {
		return fmt.Sprintf("%.3g GB/s", perSecond/1e9)
	}
	return fmt.Sprintf("%.3g MB/s", perSecond/1e6)
}

func flops(perSecond float64) string { return fmt.Sprintf("%.3g Gflop/s", perSecond/1e9) }

// Seconds formats a time.
func Seconds(s float64) string {
	switch {
	case s >= 1:
		return fmt.Sprintf("%.2g s", s)
	case s >= 1e-3:
		return fmt.Sprintf("%.3g ms", s*1e3)
	}
	return fmt.Sprintf("%.3g µs", s*1e6)
}
