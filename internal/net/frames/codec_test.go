package frames

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	"github.com/gorun/gorun/internal/test/must"
)

// The buffer of a frame that was cut off is no larger than twice the bytes that came.
func TestClaimedSizeAllocatesNothing(t *testing.T) {
	for _, came := range []int{0, 1, growStep, growStep + 1, 5 * growStep, 1 << 20} {
		claim := append(binary.BigEndian.AppendUint32(nil, 1<<30), make([]byte, came)...)
		r := Codec{Head: 4, Check: func([]byte, int) error { return nil }}.NewReader(bytes.NewReader(claim))
		_, _, err := r.Next()
		must.Equal(t, err, io.ErrUnexpectedEOF)
		if held := cap(r.data); held > 2*came+growStep {
			t.Errorf("%d bytes held for %d bytes that came", held, came)
		}
	}
}
