package gpu

import (
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
)

func TestUseIsRead(t *testing.T) {
	for line, want := range map[string]Use{
		"0, GPU-1, NVIDIA H100 80GB HBM3, 97, 81559, 1024\n": {0, "GPU-1", "NVIDIA H100 80GB HBM3", 97, 81559 << 20,
			1024 << 20},
		"7, [N/A], K80, [Not Supported], [N/A], [N/A]": {7, "", "K80", -1, 0, 0},
	} {
		got, err := ParseUse(line)
		check.That(t, err == nil && got == want, "%q: %+v, %v", line, got, err)
	}
	for _, line := range []string{"", "x, GPU-1, H100, 1, 1, 1", "0, GPU-1, H100, 1, 1", "-1, GPU-1, H100, 1, 1, 1",
		"0, GPU-1, H100, 1, lots, 1"} {
		got, err := ParseUse(line)
		check.That(t, err != nil, "%q: %+v", line, got)
	}
	c := UseCommand(time.Millisecond)
	check.That(t, c[len(c)-1] == "--loop=1", "%q", c)
}
