package stall

import "testing"

func FuzzDecode(f *testing.F) {
	f.Add([]byte("18446744073709551615 true false"))
	f.Add([]byte("-1 x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if p := Decode(text); Decode(p.Encode()) != p {
			t.Errorf("%q is %+v, which is %q", text, p, p.Encode())
		}
	})
}
