package ui

import (
	"testing"
	"testing/synctest"
	"time"
)

// stuckWriter takes nothing until it is let go.
type stuckWriter struct{ release chan struct{} }

func (w stuckWriter) Write(p []byte) (int, error) {
	<-w.release
	return len(p), nil
}

// What gorun says waits for whoever reads it until the user wants the end, and then no longer.
func TestPatientWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, inHaste := stuckWriter{make(chan struct{})}, NewHaste()
		defer close(w.release)
		p := &Patient{W: w, Haste: inHaste}
		time.AfterFunc(time.Hour, inHaste.come)
		began := time.Now()
		for range 3 {
			if n, err := p.Write([]byte("x")); n != 0 || err != errGaveUp {
				t.Errorf("%d, %v", n, err)
			}
		}
		if took := time.Since(began); took != time.Hour+stuckTime {
			t.Errorf("took %v", took)
		}
		inHaste.come() // again
	})
}
