package shm

import "testing"

func FuzzOffer(f *testing.F) {
	f.Add([]byte(`{"boot":"x","pid":1,"fd":3,"nonce":"AAAAAAAAAAAAAAAAAAAAAA=="}`))
	f.Add([]byte(`{"boot":"x","pid":-1,"fd":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if o, err := parseOffer(text); err == nil && (o.PID <= 0 || o.FD < 0 || len(o.Nonce) != nonceSize) {
			t.Errorf("%q is taken", text)
		}
	})
}
