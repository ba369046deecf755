package recorder

import (
	"math"
	"testing"
	"unsafe"

	"github.com/gorun/gorun/internal/test/check"
)

// A rank may write anything to its record.
func FuzzLane(f *testing.F) {
	bytesOf := func(l *lane) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(l)), unsafe.Sizeof(*l)) }
	for _, count := range []uint64{0, 1, history + 1, math.MaxUint64 - 1, math.MaxUint64} {
		l := lane{id: 1, size: math.MaxUint64, count: count}
		newest := &l.calls[count%history]
		newest.check = count
		newest.length = 255
		f.Add(append([]byte(nil), bytesOf(&l)[:128]...), count)
	}
	f.Fuzz(func(t *testing.T, data []byte, at uint64) {
		var l lane
		copy(bytesOf(&l), data)
		c := l.read(&l, 1, at)
		check.That(t, len(c.Calls) <= history, "%d calls of at most %d", len(c.Calls), history)
	})
}
