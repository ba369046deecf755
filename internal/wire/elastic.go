package wire

import "time"

// Elastic is the location of a process of an elastic job on its host, when it is started.
type Elastic struct {
	Slot, Slots int // it is bound like this local rank of so many, for life
	// LocalSize, Node and Nodes are of the epoch that it was started for.
	LocalSize, Node, Nodes int
	// Lease is how long the agent lives on without a word from the launcher, unless it sees the state of its connection. Parting is how
	// long its process then gets to end.
	Lease, Parting time.Duration
	// Timeout is how long it may take until there are enough slots, for programs that ask for that.
	Timeout time.Duration
}

// Epoch is one of an elastic job's, as a process is let into it.
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

// Park is a rank's word that it has left an epoch, or has begun (0), and waits for the next.
type Park struct{ Left int }

// Joined is a rank's word that it has found the others of an epoch.
type Joined struct{ Epoch int }

// Interrupt has ranks ask for another epoch when they can.
type Interrupt struct{ Epoch int }
