package stall

import (
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func FuzzDecode(f *testing.F) {
	f.Add([]byte("18446744073709551615 true false"))
	f.Add([]byte("-1 x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p := Decode(text)
		check.That(t, Decode(p.Encode()) == p, "%q is %+v, which is %q", text, p, p.Encode())
	})
}
