package recorder

import "time"

// Snapshot is the state of a rank at one moment. Durations are 0 if unknown.
type Snapshot struct {
	Rank    int           `json:"rank"`
	Size    int           `json:"size"`
	Epoch   int           `json:"epoch,omitempty"`
	Joined  bool          `json:"joined"` // false: the rank waits in Init for the others
	Since   time.Duration `json:"since"`  // time since it joined or began to wait
	Comms   []Comm        `json:"comms,omitempty"`
	Tensors []Call        `json:"tensors,omitempty"` // submitted to queues and not done, the oldest first; at most 64
	Pending int           `json:"pending,omitempty"` // number of pending tensors

	// Totals of calls that have ended.
	Calls uint64        `json:"calls"`
	Bytes uint64        `json:"bytes"`
	Time  time.Duration `json:"time"`
}

// Totals are sums over a rank's calls.
type Totals struct {
	Calls   uint64        // calls that have ended
	Bytes   uint64        // bytes of those calls' vectors
	Time    time.Duration // time in calls, including running ones; 0: unknown
	Pending time.Duration // time during which tensors of queues were pending
}

// Comm is a communicator.
type Comm struct {
	ID    uint64 `json:"id"` // id equal on all ranks of the communicator
	Size  int    `json:"size"`
	Count uint64 `json:"count"`           // calls begun
	Calls []Call `json:"calls,omitempty"` // the last ones, at most 64; the newest is the last
}

// Call is a collective, a message, or a tensor of a queue.
type Call struct {
	Comm uint64 `json:"comm"` // ID of the communicator
	// Seq is the call's number in the communicator; for a message, that of the collective before
	// it.
	Number uint64        `json:"number,omitempty"`
	Kind   int           `json:"kind"`
	Bytes  uint64        `json:"bytes"`
	Name   string        `json:"name,omitempty"` // name of a tensor
	More   int           `json:"more,omitempty"` // tensors besides the named one
	To     int           `json:"to"`             // destination of a message; -1: none
	From   int           `json:"from"`
	Began  time.Duration `json:"began"` // time since the call began
	Took   time.Duration `json:"took"`  // duration so far, unless Over
	Over   bool          `json:"over"`
}

// Trim cuts a record that a host sends to the bounds of one that was read.
func (s *Snapshot) Trim() {
	s.Comms = s.Comms[:min(len(s.Comms), lanes)]
	s.Tensors = s.Tensors[:min(len(s.Tensors), tensors)]
	all := [][]Call{s.Tensors}
	for i := range s.Comms {
		c := &s.Comms[i]
		c.Calls = c.Calls[:min(len(c.Calls), history)]
		all = append(all, c.Calls)
	}
	for _, calls := range all {
		for i := range calls {
			calls[i].Name = calls[i].Name[:min(len(calls[i].Name), maxName)]
		}
	}
}

// KindName returns the name of a kind of calls.
func KindName(kind int) string {
	names := [...]string{"", "barrier", "broadcast", "allgather", "allreduce", "reduce", "reduce-scatter", "gather",
		"scatter", "alltoall", "message"}
	if kind < 1 || kind >= len(names) {
		return "call"
	}
	return names[kind]
}

// Current returns the call in progress on c, or nil.
func (c *Comm) Current() *Call {
	if n := len(c.Calls); n > 0 && !c.Calls[n-1].Over {
		return &c.Calls[n-1]
	}
	return nil
}

// Comm returns the communicator with an ID, or nil.
func (s *Snapshot) Comm(id uint64) *Comm {
	for i := range s.Comms {
		if s.Comms[i].ID == id {
			return &s.Comms[i]
		}
	}
	return nil
}
