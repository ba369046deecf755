package settings

import (
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/usage"
)

// Control is how other processes of the user find and direct the job.
type Control struct {
	Name   string // "": the job has only an id
	Detach bool   // the job runs without this terminal
	Off    bool   // nothing is served
	// Keep is how long the hosts stay connected for other jobs when none uses them; 0: only gorun
	// up keeps them.
	Keep Seconds
}

func (c *Control) check(o *Options) error {
	switch {
	case c.Name != "" && !control.ValidName(c.Name):
		return faultOf("name", "for example --name train-7",
			"%q: expected at most 64 letters, digits, dots, dashes and underscores", usage.Clipped(c.Name))
	case c.Detach && c.Off:
		return faultOf("detach", "leave out one of them", "with --no-control: nobody could find the job again")
	case c.Detach && o.Stdin != "" && o.Stdin != "none":
		return faultOf("stdin", "let a rank read a file: gorun --detach ... sh -c './program <FILE'",
			"%s with --detach: a job in the background has no input", &o.Stdin)
	}
	return nil
}
