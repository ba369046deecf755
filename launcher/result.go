package launcher

import (
	"errors"
	"strings"

	"github.com/gorun/gorun/launcher/output"
)

// LaunchError reports that a job was not started, with every failed host and its
// reason. Nothing is left running on any host.
type LaunchError struct{ Hosts []HostError }

func (e *LaunchError) Error() string {
	parts := make([]string, len(e.Hosts))
	for i, h := range e.Hosts {
		parts[i] = h.Error()
	}
	return "cannot start the job: " + strings.Join(parts, "; ")
}

// Code is the exit code for a job that was not started: a missing program's own code when that
// is all that is wrong, else 125.
func (e *LaunchError) Code() int {
	code := 0
	for _, h := range e.Hosts {
		var refused *RefusedError
		if !errors.As(h.Err, &refused) || (code != 0 && refused.Code != code) {
			return CodeLaunch
		}
		code = refused.Code
	}
	if code != 126 && code != 127 {
		return CodeLaunch // whatever code the host reported
	}
	return code
}

// endedOf returns a result for the index of the output files.
func endedOf(r Result) *output.Ended {
	e := &output.Ended{Code: r.Code()}
	for _, x := range r.Exits {
		e.Ranks = append(e.Ranks, output.RankEnd{
			Rank:    x.Rank,
			Code:    x.Code,
			Signal:  x.Signal,
			Stopped: x.Stopped,
			After:   max(0, x.At-r.Started),
		})
	}
	return e
}
