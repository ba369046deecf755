package core

import (
	"errors"
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
)

// TestStopCauses plays why ranks are stopped: the first failure that is known when they are.
func TestStopCauses(t *testing.T) {
	lost := errors.New("no word")
	for _, tc := range []struct {
		name   string
		events []at
		want   string // "": unknown
	}{
		{"a rank failed", []at{exit(1, 3, 4, 1)}, "rank 3 failed"},
		{"a second one failed later", []at{exit(1, 3, 4, 1), exit(0, 0, 5, 2)}, "rank 3 failed"},
		{"a host was lost", []at{{1, HostLost{Host: 1, Err: lost}}}, "host b failed"},
		{"an agent fails", []at{{1, HostFailing{Host: 2, Err: lost}}}, "host c failed"},
		{"Ctrl-C", []at{{1, Stop{Why: Interrupted}}}, "SIGINT"},
		{"Ctrl-C, then a failure", []at{{1, Stop{Why: Interrupted}}, exit(1, 3, 4, 2)}, "SIGINT"},
		{"a failure, then Ctrl-C", []at{exit(1, 3, 4, 1), {2, Stop{Why: Interrupted, Now: true}}}, "rank 3 failed"},
		{"a time limit", []at{{1, Stop{Why: TimedOut}}}, "--timeout"},
		{"a hang", []at{{1, Stop{Why: Hung}}}, "--hang-timeout"},
		{"no reader", []at{{1, Stop{Why: OutputClosed}}}, "the end of its output's reader"},
		{"a victim, before its origin is known", []at{
			{1, RankLost{wire.Lost{By: 2, Rank: 0, Cause: "reset"}}}, told(1, 2, 1, 2), exit(0, 0, 9, 3)},
			"rank 2 failed"},
		{"a victim, after the rank that requested the abort", []at{
			{1, RankLost{wire.Lost{By: 0, Rank: 0, Cause: "gives up"}}}, told(1, 2, 1, 2), exit(0, 0, 9, 3)},
			"rank 0 failed"},
		{"no failure", []at{exit(1, 3, 0, 1)}, ""},
	} {
		c, _ := play(t, TolerateNone, tc.events)
		got := ""
		if cause := c.StopCause(); cause != nil {
			got = cause.String()
		}
		check.Equal(t, got, tc.want, tc.name)
	}
}
