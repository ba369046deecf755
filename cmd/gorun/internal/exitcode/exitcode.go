// Package exitcode maps errors to the exit codes of gorun.
package exitcode

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
)

// Exit codes of errors that end gorun before any rank fails.
const (
	Usage  = 2                   // a mistake in the command line, the settings or the hosts
	Launch = launcher.CodeLaunch // 125: the job could not be launched, or a host was lost
)

// Of returns the exit code for an error of a job or command. docs/exit-codes.md has the table.
func Of(err error) int {
	var launch *launcher.LaunchError
	var slots *launcher.SlotsError
	var gpus *launcher.GPUsError
	var output *launcher.OutputError
	var stopped *launcher.StoppedError
	var job *control.NoJobError
	switch {
	case errors.As(err, &launch):
		return launch.Code()
	case errors.As(err, &stopped):
		return launcher.Result{Stopped: stopped.Reason}.Code()
	case errors.As(err, &slots), errors.As(err, &gpus), errors.As(err, &output), errors.As(err, &job),
		IsUsage(err):
		return Usage
	}
	return Launch
}

// IsUsage reports whether err is a mistake in what the user typed or configured.
func IsUsage(err error) bool {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	var syntax *pflag.InvalidSyntaxError
	return usage.Is(err) || errors.As(err, &unknown) || errors.As(err, &missing) ||
		errors.As(err, &invalid) || errors.As(err, &syntax)
}
