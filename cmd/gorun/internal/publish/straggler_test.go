package publish

import (
	"testing"
	"time"

	"github.com/gorun/gorun/internal/sight/watch"
	"github.com/gorun/gorun/internal/test/check"
)

// A rank that is slow and fast in turns is reported a number of times, and another host's still.
func TestStragglersOfAHostAreBounded(t *testing.T) {
	var l lateness
	told := map[string]int{}
	now := 0
	last := 2 * maxTold
	for turn := range last + 1 {
		for range 20 { // each turn is longer than the window
			s := watch.Sample{At: time.Unix(int64(now), 0)}
			for rank, host := range []string{"f1", "f2", "f3", "f4"} {
				share := 0.5
				if turn%2 == 1 && host == "f2" || turn == last && host == "f3" {
					share = 0
				}
				s.Ranks = append(s.Ranks, watch.Rank{
					Rank: rank,
					Host: host,
					PID:  7 + turn, // another process: nothing is known of an earlier one
					Ring: &watch.Ring{Share: share},
				})
			}
			for _, late := range l.add(s) {
				told[late.Host]++
			}
			now += 5
		}
	}
	check.Equal(t, told["f2"], maxTold, "findings of the rank that changes")
	check.Equal(t, told["f3"], 1, "findings of another")
}
