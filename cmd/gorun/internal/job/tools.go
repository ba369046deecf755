package job

import (
	"fmt"
	"os"
	"slices"

	"github.com/gorun/gorun/cmd/gorun/internal/panes"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/tool"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
)

// decideTools decides which ranks start below a tool, in a terminal, or stopped.
func decideTools(o *settings.Options, plan launcher.Plan, programs []launcher.Program,
	screen *ui.Screen) (tool.Decision, error) {
	r := tool.Request{
		Tools:    o.Tools.Tool,
		Debug:    o.Tools.Debug,
		Panes:    o.Tools.Panes,
		Job:      os.Getenv("SLURM_JOB_ID"),
		Plan:     plan,
		Programs: programs,
	}
	if screen != nil {
		r.Terminal = screen.Kind()
	}
	d, err := tool.Decide(r)
	if err != nil || d.Here < 0 && len(d.Panes) == 0 {
		return d, err
	}
	if len(d.Panes) > 0 && screen == nil && !o.DryRun {
		return d, usage.Errorf("leave it out, or start gorun in a terminal",
			"--panes shows ranks on this terminal, and standard input or output is none")
	}
	if len(d.Panes) > 0 && !o.DryRun && !panes.Installed() {
		return d, usage.Errorf("install it (Debian: apt-get install tmux)",
			"--panes shows ranks in tmux, which was not found in PATH")
	}
	if o.Stdin != "" && o.Stdin != "none" {
		return d, usage.Errorf("leave out --stdin", "--stdin %s: the tool of a rank reads this terminal", o.Stdin)
	}
	o.Stdin = "none"
	return d, nil
}

// dryTool is a rank that starts otherwise than by its program's words.
type dryTool struct {
	Rank     int      `json:"rank"`
	Program  []string `json:"program,omitempty"`
	Terminal string   `json:"terminal,omitempty"` // "here" or "tmux"
	Stopped  bool     `json:"stopped,omitempty"`
}

func dryTools(d tool.Decision) (all []dryTool) {
	for _, t := range d.Tools {
		dry := dryTool{Rank: t.Rank, Program: t.Argv, Stopped: t.Halt}
		switch {
		case t.Rank == d.Here:
			dry.Terminal = "here"
		case slices.Contains(d.Panes, t.Rank):
			dry.Terminal = "tmux"
		}
		all = append(all, dry)
	}
	return all
}

func (t dryTool) text() string {
	text := fmt.Sprintf("rank %d:", t.Rank)
	if t.Program != nil {
		text += fmt.Sprintf(" %q", t.Program)
	}
	switch t.Terminal {
	case "here":
		text += " on this terminal"
	case "tmux":
		text += " in tmux"
	}
	if t.Stopped {
		text += " stopped for a debugger"
	}
	return text
}
