package session

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	var c clock
	if _, known := c.Offset(); known {
		t.Error("an offset is known before any heartbeat")
	}
	c.beat(time.Second, 5*time.Second)
	c.beat(2*time.Second, 5900*time.Millisecond)
	c.beat(3*time.Second, 8*time.Second)
	if got, _ := c.Offset(); got != 3900*time.Millisecond {
		t.Errorf("the offset is %v, not that of the fastest", got)
	}
}

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
