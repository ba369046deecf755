package ui

import (
	"fmt"
	"slices"
	"time"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/launcher"
)

// Folding returns how equal lines of the ranks of a plan are shown as one. screen is by fd, true
// for a terminal. Other launchers' styles name one rank a line, and are folded only if the user
// says so.
func (l LineStyle) Folding(plan launcher.Plan, screen [3]bool) launcher.Folding {
	own := slices.Contains([]string{"", "host", "default", "rank"}, l.Style)
	how := launcher.Folding{On: [3]bool{1: true, 2: true}, Numbers: l.Fold == "numbers"}
	if l.Fold == "auto" {
		how.On = screen
	}
	if l.Fold == "" || l.Fold == "auto" && !own || how.On == [3]bool{} {
		return launcher.Folding{}
	}
	width := 0
	if prefix, err := l.text(plan); err == nil && prefix != nil && plan.Size > 0 && own {
		width = len(prefix(0, 1))
	}
	how.Prefix = func(ranks []int, at time.Time) []byte {
		text := fmt.Sprintf("%-*s", width, "["+prose.Ranges(ranks, 8)+"] ")
		if l.Timestamp {
			text = at.Format(l.layout()) + " " + text
		}
		return []byte(text)
	}
	return how
}
