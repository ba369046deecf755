package ui

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/internal/test/check"
)

// stuckWriter blocks each write until it is released.
type stuckWriter struct{ release chan struct{} }

func (w stuckWriter) Write(p []byte) (int, error) {
	<-w.release
	return len(p), nil
}

// Writes block without a limit until the user asks gorun to end; then they are abandoned.
func TestBlockedWriteIsAbandonedAfterAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stuckWriter{make(chan struct{})}
		deadline := NewWriteDeadline()
		defer close(w.release)
		p := &DeadlineWriter{W: w, Deadline: deadline}
		time.AfterFunc(time.Hour, deadline.Start)
		began := time.Now()
		for range 3 {
			n, err := p.Write([]byte("x"))
			check.That(t, n == 0 && err == errAbandoned, "%d, %v", n, err)
		}
		check.Equal(t, time.Since(began), time.Hour+writeTimeout, "took")
		deadline.Start() // again
	})
}
