package services

import (
	"slices"
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
)

func TestStartupReportsARankThatOthersWaitFor(t *testing.T) {
	for name, story := range map[string]struct {
		does func(*startup)
		want []int // ranks that are reported
	}{
		"ends, then others come": {func(s *startup) { s.rankEnded(1); s.enter(0); s.enter(2) }, []int{1}},
		"others come, then ends": {func(s *startup) { s.enter(2); s.enter(0); s.rankEnded(1) }, []int{1}},
		"comes, then ends":       {func(s *startup) { s.enter(1); s.enter(0); s.rankEnded(1) }, nil},
		"nobody comes":           {func(s *startup) { s.rankEnded(1); s.rankEnded(0) }, nil},
		"ends after the meeting": {func(s *startup) { s.enter(0); s.end(); s.rankEnded(1) }, nil},
	} {
		var got []int
		s := newStartup(wire.Job{Ranks: make([]wire.Rank, 3)}, func(_ wire.Type, message any) {
			if lost, is := message.(wire.Lost); is && lost.Awaited && lost.By == lost.Rank && lost.Waiter == 0 {
				got = append(got, lost.Rank)
			}
		})
		story.does(s)
		s.end()
		check.That(t, slices.Equal(got, story.want), "%s: reports %v, want %v", name, got, story.want)
	}
}

func TestSlowStartupTellsWhoHasCome(t *testing.T) {
	told := make(chan []int, 4)
	s := newStartup(wire.Job{Ranks: make([]wire.Rank, 3)}, func(kind wire.Type, message any) {
		if kind == wire.TypeEntered {
			told <- message.(wire.Entered).Ranks
		}
	})
	s.enter(2)
	if got := <-told; !slices.Equal(got, []int{2}) { // after a second
		t.Errorf("first told %v", got)
	}
	s.enter(0)
	check.Slice(t, <-told, []int{2, 0}, "then told")
	s.end()
	s.enter(1)
	check.That(t, len(told) == 0, "the launcher is told after the start-up")
}
