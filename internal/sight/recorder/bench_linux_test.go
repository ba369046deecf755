package recorder

import (
	"fmt"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/must"
)

func BenchmarkCall(b *testing.B) {
	r := must.Get(New(0, 1, 0))(b)
	defer r.Close()
	for _, name := range []string{"", "layer1.0.conv1.weight"} {
		for _, brief := range []bool{false, true} {
			b.Run(fmt.Sprintf("name=%s/brief=%t", name, brief), func(b *testing.B) {
				l := r.Lane(name, 1)
				defer l.Close()
				for i := range b.N {
					l.Enter(4, uint64(i), 4, -1, -1, name, 0)
					l.Leave(brief)
				}
			})
		}
	}
}

func BenchmarkClock(b *testing.B) {
	b.Run("counter", func(b *testing.B) {
		for range b.N {
			readCounter()
		}
	})
	b.Run("time", func(b *testing.B) {
		t := time.Now()
		for range b.N {
			_ = time.Since(t)
		}
	})
}
