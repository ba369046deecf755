package session

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A day of heartbeats that take 0.2 to 50 ms, from clocks that are 60 ppm too slow or too fast.
func TestClockFollowsDrift(t *testing.T) {
	for _, drift := range []float64{-60e-6, 60e-6} {
		rnd := rand.New(rand.NewPCG(7, 7))
		var c clock
		for n := range 24 * 3600 {
			now := time.Duration(n) * time.Second
			at := time.Duration(float64(now)*(1+drift)) + time.Hour
			c.beat(at, now+200*time.Microsecond+time.Duration(rnd.ExpFloat64()*float64(5*time.Millisecond)))
			offset, _ := c.Offset()
			if wrong := at + offset - now; n > 120 && (wrong < -10*time.Millisecond || wrong > 10*time.Millisecond) {
				t.Fatalf("drift %g, after %v: wrong by %v", drift, now, wrong)
			}
		}
	}
}
