package top

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/sight/stacks"
)

// look holds the stacks of the rank on the screen. They are taken only when the user selects the
// rank or asks again, because that stops the process for a moment.
type look struct {
	wanted  bool // a request of the user that has not begun
	under   bool // way
	at      time.Time
	report  *stacks.Rank // nil: there is none yet
	problem string
}

// maxLook bounds the bytes of an answer about one rank.
const maxLook = 16 << 20

// take asks the job for the stacks of a rank.
func take(ctx context.Context, c *control.Client, rank int) look {
	var answer struct {
		Ranks []stacks.Rank `json:"ranks"`
	}
	err := c.Ask(ctx, "/v1/stacks", control.Stacks{Ranks: []int{rank}}, &answer, maxLook)
	l := look{at: time.Now()}
	switch {
	case err != nil:
		l.problem = err.Error()
	case len(answer.Ranks) != 1:
		l.problem = "the job does not know it"
	default:
		l.report = &answer.Ranks[0]
	}
	return l
}

func (l *look) title() string {
	switch {
	case l.report == nil && l.problem == "":
		return "stacks: they are read"
	case l.under:
		return "stacks: they are read again"
	}
	return fmt.Sprintf("stacks at %s:", l.at.Format(time.TimeOnly))
}

// text returns the rank's stacks in a number of lines.
func (l *look) text(rank, lines int) []string {
	switch {
	case l.problem != "":
		return []string{"none: " + prose.Printable(l.problem)}
	case l.report == nil || l.report.Rank != rank || lines <= 0:
		return nil
	}
	all := strings.Split(strings.TrimRight(stacks.Alone(*l.report, lines), "\n"), "\n")
	return all[:min(len(all), lines)]
}
