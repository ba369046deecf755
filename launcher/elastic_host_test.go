package launcher

import (
	"testing"
	"time"

	"github.com/gorun/gorun/internal/wire"
)

// The user wants the end, and then at once, while a process is being started. It was told to end with all the time there is.
func TestHasteHoldsForProcessesToCome(t *testing.T) {
	for _, tc := range []struct {
		second bool
		want   time.Duration
	}{{false, 5 * time.Second}, {true, 0}} {
		told := make(chan time.Duration, 2)
		m := &machine{serve: func(a *fakeAgent) error {
			time.Sleep(800 * time.Millisecond)
			if err := a.ready(); err != nil {
				return nil // it was called off
			}
			f, err := a.expect(wire.TypeStop)
			if err != nil {
				return err
			}
			var stop wire.Stop
			if err := f.Decode(&stop); err != nil {
				return err
			}
			told <- stop.Grace
			return a.finish(wire.Exit{Signal: 15, Stopped: true})
		}}
		elasticOn(t, m, func(o *Options) {
			stops := make(chan Stop, 2)
			o.Stops = stops
			time.AfterFunc(300*time.Millisecond, func() { stops <- Stop{Reason: Interrupted} })
			if tc.second {
				time.AfterFunc(600*time.Millisecond, func() { stops <- Stop{Reason: Interrupted, Now: true} })
			}
		}, func(t *testing.T, r Result, err error) {
			if err != nil || r.Stopped != Interrupted || len(told) != 2 || <-told != tc.want || <-told != tc.want {
				t.Errorf("%+v, %v, want a grace of %v", r, err, tc.want)
			}
		})
	}
}
