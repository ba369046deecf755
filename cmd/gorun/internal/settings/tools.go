package settings

import (
	"github.com/gorun/gorun/cmd/gorun/internal/tool"
	"github.com/gorun/gorun/internal/usage"
)

// Tools are the debuggers, profilers and terminals of chosen ranks.
type Tools struct {
	Tool         []string // see tool.Request
	Debug, Panes chosen
}

// check returns an error for flags that tools cannot be combined with.
func (t *Tools) check(o *Options) error {
	flag := ""
	switch {
	case len(t.Panes) > 0:
		flag = "panes"
	case len(t.Debug) > 0:
		flag = "debug"
	case len(t.Tool) > 0:
		flag = "tool"
	}
	switch {
	case flag == "":
	case o.Elastic.Given():
		return faultOf(flag,
			"to start every process by a tool, write it before the program: gorun ... valgrind ./train",
			"chooses ranks, and the processes of an elastic job change theirs")
	case len(t.Panes) > 0 && o.Control.Off:
		return faultOf("panes", "leave out --no-control", "needs the job's socket, by which terminals find it")
	case len(t.Panes) > 0 && o.Control.Detach:
		return faultOf("panes", "leave out one of them", "shows ranks on this terminal, and --detach leaves it")
	}
	return nil
}

// DisregardTerminals takes back what srun's --pty or flux's -o pty asks for, which do nothing
// without a terminal, and reports whether one of them was given.
func (o *Options) DisregardTerminals() bool {
	if o.StandsFor == "" || len(o.Tools.Panes) == 0 || o.DryRun {
		return false
	}
	o.Tools.Panes = nil
	if o.Stdin == "" {
		o.Stdin = "all"
	}
	return true
}

// chosen is a set of ranks such as 0,8-11, or all. The zero value is none.
type chosen [][2]int

func (c *chosen) Type() string { return "ranks" }

func (c *chosen) String() string {
	if len(*c) > 0 && (*c)[0] == tool.All()[0] {
		return "all"
	}
	return (*Ranks)(c).String()
}

func (c *chosen) Set(text string) (err error) {
	switch text {
	case "all":
		*c = tool.All()
	case "none":
		*c = nil
	default:
		*c, err = usage.ParseRanks(text)
	}
	return err
}
