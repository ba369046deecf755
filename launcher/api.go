package launcher

import (
	"context"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/launcher/core"
	"github.com/gorun/gorun/launcher/output"
	"github.com/gorun/gorun/launcher/plan"
	"github.com/gorun/gorun/launcher/route"
	"github.com/gorun/gorun/launcher/session"
	"github.com/gorun/gorun/launcher/survey"
)

// Plans and their parts. Package plan makes them.
type (
	Plan        = plan.Plan
	PlannedHost = plan.Host
	Rank        = wire.Rank
	Program     = wire.Program
	Text        = wire.Text
	Tool        = wire.Tool
	Request     = plan.Request
	Part        = plan.Part
	Order       = plan.Order
	Binding     = wire.Binding
	Settings    = wire.Settings
	GPURequest  = wire.GPUs
	SlotsError  = plan.SlotsError
	GPUsError   = plan.GPUsError
)

// Orders of ranks.
const (
	BySlot = plan.BySlot
	ByNode = plan.ByNode
)

// Network is the networks that ranks use. See package route.
type Network = route.Network

// Hosts and sessions with their agents. See package session.
type (
	Host            = session.Host
	Sessions        = session.Registry
	Local           = session.Local
	Executable      = session.Executable
	PythonEnv       = session.Python
	RefusedError    = session.RefusedError
	AgentEndedError = session.AgentEndedError
	ServerError     = session.ServerError
)

// Installed describes a gorun that is installed at path, for programs that call [Run] and are not
// gorun themselves.
func Installed(path string) (Executable, error) { return session.Installed(path) }

// Meter hears of bytes that are to come, and of those that have come.
type Meter = session.Meter

// AgentCommand is the first argument that makes gorun an agent's guard; the second is the nonce.
const AgentCommand = session.AgentCommand

// How a job ends, and its ranks. See package core.
type (
	Result          = core.Result
	Codes           = core.Codes
	Tolerance       = core.Tolerance
	Failure         = core.Failure
	LateError       = core.LateError
	NotSpawnedError = core.NotSpawnedError
	Exit            = core.Exit
	HostError       = core.HostError
	Unkillable      = core.Unkillable
	StopReason      = core.StopReason
	StopCause       = core.StopCause
)

// Exit codes that gorun itself chooses.
const (
	CodeTimeout = core.CodeTimeout
	CodeLaunch  = core.CodeLaunch
)

// How failures of ranks become exit codes.
const (
	FirstCode   = core.FirstCode
	HighestCode = core.HighestCode
	MergedCode  = core.MergedCode
	OneCode     = core.OneCode
)

// Which failures of ranks leave the others running.
const (
	TolerateNone  = core.TolerateNone
	TolerateCodes = core.TolerateCodes
	TolerateAll   = core.TolerateAll
)

// Reasons to stop a job, and memory that may run out.
const (
	NotStopped   = core.NotStopped
	Interrupted  = core.Interrupted
	Terminated   = core.Terminated
	HungUp       = core.HungUp
	TimedOut     = core.TimedOut
	OutputClosed = core.OutputClosed
	OutputFailed = core.OutputFailed
	Hung         = core.Hung

	MemoryOfHost  = core.MemoryOfHost
	MemoryOfGroup = core.MemoryOfGroup
	MemoryLikely  = core.MemoryLikely
)

// OutputError reports that the ranks' output cannot be saved where it should be.
type OutputError = output.OutputError

// Folding says how equal lines of ranks are shown as one. The zero value folds none.
type Folding = output.Folding

// Format is how the ranks' output is shown. The zero value passes bytes unchanged.
type Format = output.Format

// Reach is how hosts are reached. See package survey.
type Reach = survey.Reach

// Count is [survey.Count] for hosts that all must answer. The error is a *[LaunchError] with those
// that did not.
func Count(ctx context.Context, hosts []hostfile.Host, unit string, reach Reach) ([]int, error) {
	counts := make([]int, len(hosts))
	var failed LaunchError
	for i, c := range survey.Count(ctx, hosts, unit, reach) {
		counts[i] = c.N
		if c.Err != nil {
			failed.Hosts = append(failed.Hosts, HostError{Host: c.Host.Name, Err: c.Err})
		}
	}
	if len(failed.Hosts) > 0 {
		return nil, &failed
	}
	return counts, nil
}
