package wire

import "time"

// Elastic describes a process of an elastic job at its start.
type Elastic struct {
	Slot, Slots int // slot and slot count that determine the rank's binding
	// LocalSize, Node and Nodes are of the epoch that it was started for.
	LocalSize, Node, Nodes int
	// Lease is how long the agent runs without a frame from the launcher, unless it can read the
	// state of its connection. Parting is the grace of its process after that.
	Lease, Parting time.Duration
	// Timeout bounds the wait for enough slots, for programs that ask for it.
	Timeout time.Duration
	// MaxRestarts is how many failures a job survives whose epochs replace all processes; 0 in
	// other jobs.
	MaxRestarts int
}

// Epoch admits a process to an epoch of an elastic job.
type Epoch struct {
	Number int
	Key    []byte // 32 bytes, secret
	Size   int
	Rank   int
	LocalRank, LocalSize,
	CrossRank, CrossSize,
	Node, Nodes int
	Addrs []string // this host's addresses as the other hosts should use them, best first
}

// Park reports that a rank has left an epoch (0: it has just started) and waits for the next.
type Park struct{ Left int }

// Joined reports that a rank has found the others of an epoch.
type Joined struct{ Epoch int }

// Interrupt requests that ranks ask for another epoch as soon as they can.
type Interrupt struct{ Epoch int }
