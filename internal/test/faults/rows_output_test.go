package faults

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
)

// Rows E5 and G3: the last output of ranks.
func TestOutputRows(t *testing.T) {
	b := namespaces(t, 2)
	b.row("E5 the last bytes before the end", func(t *testing.T, b *harness) {
		const size = 64 << 10
		for end, code := range map[string]int{"exit 0": 0, "kill -9 $$": 137} {
			for range 5 {
				at := time.Now()
				j, w := b.gorun("-np", "1", "-H", "f1", "--prefix", "none", "sh", "-c",
					`head -c 65535 /dev/zero | tr '\0' x; echo; `+end)
				<-j.Ended()
				b.judge(w, j, at, Expect{Codes: []int{code}, End: 20 * time.Second, Clean: 20 * time.Second})
				got := len(j.Out.String())
				check.That(t, got == size, "%s: %d bytes of %d came", end, got, size)
			}
		}
	})
	b.row("G3 many ranks say their last at once", func(t *testing.T, b *harness) {
		const ranks = 64
		j, w := b.gorun("-np", "64", "-H", "f1:32,f2:32", "--prefix", "none", binary("rank"), "-every", "1s")
		b.await(j, "the ranks", func() bool { return strings.Count(j.Out.String(), " line ") >= ranks })
		at := b.signal(j, syscall.SIGUSR1)
		b.judge(w, j, at, Expect{
			Codes:    []int{0},
			End:      15 * time.Second,
			Clean:    15 * time.Second,
			Ranks:    ranks,
			Complete: true,
		})
	})
}
