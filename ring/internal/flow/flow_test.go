package flow_test

import (
	"testing"

	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/flow"
)

func TestCutsMakeUpTheWhole(t *testing.T) {
	for _, size := range []int{0, 1, 63, 64, 65, 1000, 4096, 1 << 20} {
		for n := 1; n <= 9; n++ {
			b := make([]byte, size)
			at := 0
			for i := range n {
				piece := flow.Cut(b, i, n)
				must.That(t, len(piece) == 0 || &piece[0] == &b[at] && at%64 == 0,
					"%d bytes, stripe %d of %d does not begin at %d", size, i, n, at)
				at += len(piece)
			}
			must.That(t, at == size, "%d bytes in %d stripes: %d are carried", size, n, at)
		}
	}
}
