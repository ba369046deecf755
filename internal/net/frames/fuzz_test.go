package frames

import (
	"bytes"
	"testing"
)

func FuzzRead(f *testing.F) {
	f.Add([]byte{Out, 0, 0, 0, 1, 'x', Last, 0, 0, 0, 0})
	f.Add([]byte{Out, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := NewReader(bytes.NewReader(data))
		for read := 0; ; {
			_, frame, err := r.Next()
			if err != nil {
				return
			}
			if read += 5 + len(frame); read > len(data) || len(frame) > Max {
				t.Fatalf("a frame of %d bytes, at %d of %d", len(frame), read, len(data))
			}
		}
	})
}
