package collective

import (
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/ring/internal/flow"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// It is R22 of the fault matrix.
func FuzzCall(f *testing.F) {
	for _, c := range []Call{
		{},
		{Seq: 1, Kind: Barrier},
		{Seq: 1 << 60, Epoch: 3, Kind: AllReduce, Type: kernel.F32, Op: kernel.Avg, Count: 1 << 40},
		{Seq: 9, Kind: Broadcast, Type: kernel.F64, Root: 7, Count: 10},
	} {
		var b flow.Sign
		Encode(&c, &b)
		f.Add(b[:])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var b, again flow.Sign
		copy(b[:], data)
		c, err := Decode(&b)
		if err != nil {
			return
		}
		Encode(&c, &again)
		check.That(t, again == b, "%x decodes to %+v, which encodes to %x", b, c, again)
		check.That(t, c.String() != "", "no text")
	})
}

func TestCallIsOneDescription(t *testing.T) {
	calls := []Call{
		{Seq: 1}, {Epoch: 1}, {Kind: 1}, {Type: 1}, {Op: 1}, {Root: 1}, {Count: 1}, {},
	}
	seen := map[flow.Sign]Call{}
	for _, c := range calls {
		var b flow.Sign
		Encode(&c, &b)
		other, ok := seen[b]
		check.That(t, !ok, "%+v and %+v look the same", c, other)
		seen[b] = c
		got, err := Decode(&b)
		check.That(t, err == nil && got == c, "%+v comes back as %+v, %v", c, got, err)
	}
	var swapped flow.Sign
	Encode(&calls[0], &swapped)
	swapped[0], swapped[1], swapped[2], swapped[3] = swapped[3], swapped[2], swapped[1], swapped[0]
	check.Error(Decode(&swapped)).Any(t, "a call in the other byte order is taken")
}
