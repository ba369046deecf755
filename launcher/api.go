package launcher

import (
	"github.com/gorun/gorun/launcher/output"
	"github.com/gorun/gorun/launcher/plan"
	"github.com/gorun/gorun/launcher/route"
	"github.com/gorun/gorun/launcher/session"
)

// Plans and their parts. Package plan makes them.
type (
	Plan        = plan.Plan
	PlannedHost = plan.Host
	Rank        = plan.Rank
	Program     = plan.Program
	Request     = plan.Request
	Part        = plan.Part
	Order       = plan.Order
	Binding     = plan.Binding
	GPURequest  = plan.GPUs
	Placement   = plan.Placement
	SlotsError  = plan.SlotsError
	GPUsError   = plan.GPUsError
)

// Orders of ranks, and units of binding.
const (
	BySlot     = plan.BySlot
	ByNode     = plan.ByNode
	BindThread = plan.BindThread
	BindCore   = plan.BindCore
	BindNode   = plan.BindNode
	BindSocket = plan.BindSocket
)

// The networks that ranks use. See package route.
type (
	Network      = route.Network
	NetworkError = route.NetworkError
)

// Hosts and sessions with their agents. See package session.
type (
	Host            = session.Host
	Local           = session.Local
	Executable      = session.Executable
	RefusedError    = session.RefusedError
	AgentEndedError = session.AgentEndedError
)

// AgentCommand is the first argument that makes gorun an agent's guard; the second is the nonce.
const AgentCommand = session.AgentCommand

// OutputError reports that the ranks' output cannot be saved where it should be.
type OutputError = output.OutputError
