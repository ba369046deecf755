package engine

import (
	"bytes"
	"testing"
)

// It is R22 of the fault matrix.
func FuzzCall(f *testing.F) {
	for _, c := range []Call{
		{},
		{Seq: 1, Kind: KindBarrier},
		{Seq: 1 << 60, Epoch: 3, Kind: KindAllReduce, Type: Float32, Op: Avg, Count: 1 << 40},
		{Seq: 9, Kind: KindBroadcast, Type: Float64, Root: 7, Count: 10},
	} {
		var b [callSize]byte
		c.encode(&b)
		f.Add(b[:])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var b, again [callSize]byte
		copy(b[:], data)
		c, err := decodeCall(&b)
		if err != nil {
			return
		}
		if c.encode(&again); !bytes.Equal(again[:], b[:]) {
			t.Errorf("%x decodes to %+v, which encodes to %x", b, c, again)
		}
		if c.String() == "" {
			t.Error("no text")
		}
	})
}

func TestCallIsOneDescription(t *testing.T) {
	calls := []Call{
		{Seq: 1}, {Epoch: 1}, {Kind: 1}, {Type: 1}, {Op: 1}, {Root: 1}, {Count: 1}, {},
	}
	seen := map[[callSize]byte]Call{}
	for _, c := range calls {
		var b [callSize]byte
		c.encode(&b)
		if other, ok := seen[b]; ok {
			t.Errorf("%+v and %+v look the same", c, other)
		}
		seen[b] = c
		if got, err := decodeCall(&b); err != nil || got != c {
			t.Errorf("%+v comes back as %+v, %v", c, got, err)
		}
	}
	var swapped [callSize]byte
	calls[0].encode(&swapped)
	swapped[0], swapped[1], swapped[2], swapped[3] = swapped[3], swapped[2], swapped[1], swapped[0]
	if _, err := decodeCall(&swapped); err == nil {
		t.Error("a call in the other byte order is taken")
	}
}
