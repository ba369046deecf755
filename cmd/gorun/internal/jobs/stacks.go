package jobs

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/sight/stacks"
)

// StacksView selects and styles the output of Stacks.
type StacksView struct {
	Ranks [][2]int // none: all
	Full  bool     // all functions of all threads
	JSON  bool
}

// maxAnswer bounds the bytes of an answer.
const maxAnswer = 1 << 30

// usualLines bounds the lines that Stacks prints, unless it prints all.
const usualLines = 60

// Stacks prints the current stacks of a job's ranks.
func Stacks(ctx context.Context, place control.Place, name string, view StacksView, out io.Writer) error {
	f, err := running(ctx, place, name)
	if err != nil {
		return err
	}
	ranks, err := each(view.Ranks, f.Job)
	if err != nil {
		return err
	}
	var answer struct {
		Ranks []stacks.Rank `json:"ranks"`
	}
	if err := f.Client.Ask(ctx, "/v1/stacks", control.Stacks{Ranks: ranks}, &answer, maxAnswer); err != nil {
		return fmt.Errorf("look at the ranks of job %s: %w", f.ID, err)
	}
	if view.JSON {
		return ui.WriteJSON(out, answer, "")
	}
	text := stacks.View{Size: f.Size, All: view.Full}
	if !view.Full {
		text.Lines = usualLines - 1
	}
	_, err = fmt.Fprintf(out, "job %s: %s of %s\n%s", f.ID, prose.Count(len(answer.Ranks), "rank"),
		cell(strings.Join(f.Program, " "), 60), text.Text(answer.Ranks))
	return err
}
