package settings

import (
	"github.com/spf13/pflag"

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

func (c *Control) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.Name, "name", "", "name of the job for gorun ps, logs, attach, exec and the like")
	flags.BoolVar(&c.Detach, "detach", false,
		"run the job in the background, print its id, and keep its output for gorun logs")
	flags.Var(&c.Keep, "keep", "keep the hosts connected in the background until no job has used them for this time; "+
		"gorun up does so without a job")
	flags.BoolVar(&c.Off, "no-control", false, "make no socket by which gorun ps and its like find the job")
}

func (c *Control) check() error {
	switch {
	case c.Name != "" && !control.ValidName(c.Name):
		return usage.Errorf("for example --name train-7",
			"--name %q: expected at most 64 letters, digits, dots, dashes and underscores", usage.Clipped(c.Name))
	case c.Detach && c.Off:
		return usage.Errorf("leave out one of them", "--detach with --no-control: nobody could find the job again")
	}
	return nil
}
