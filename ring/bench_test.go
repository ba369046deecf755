package ring_test

import (
	"fmt"
	"testing"

	"github.com/gorun/gorun/internal/ringtest"
	"github.com/gorun/gorun/ring"
)

// BenchmarkAllReduce reports algorithm bandwidth: bytes of one rank's buffer per
// second. All ranks share this process, and the machine.
func BenchmarkAllReduce(b *testing.B) {
	for _, size := range []int{2, 4} {
		for _, bytes := range []int{8, 1 << 10, 32 << 10, 160 << 10, 1 << 20, 16 << 20, 64 << 20} {
			b.Run(fmt.Sprintf("ranks=%d/bytes=%d", size, bytes), func(b *testing.B) {
				comms := ringtest.NewDoor(b, size).Join(b)
				b.ReportAllocs()
				timeAllReduce(b, comms, bytes)
			})
		}
	}
}

// timeAllReduce times allreduces of so many bytes, which all comms make at once.
func timeAllReduce(b *testing.B, comms []*ring.Comm, bytes int) {
	b.SetBytes(int64(bytes))
	b.ResetTimer()
	err := ringtest.Each(len(comms), func(rank int) error {
		buf := make([]float32, bytes/4)
		for range b.N {
			if err := ring.AllReduce(ctx, comms[rank], buf, ring.Sum); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}
