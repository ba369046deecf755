package recorder

import "time"

// Snapshot is what a rank does at one moment. Its durations are 0 if they are not known.
type Snapshot struct {
	Rank    int           `json:"rank"`
	Size    int           `json:"size"`
	Epoch   int           `json:"epoch,omitempty"`
	Joined  bool          `json:"joined"` // false: it waits in Init for the other ranks
	Since   time.Duration `json:"since"`  // it has joined, or waits
	Comms   []Comm        `json:"comms,omitempty"`
	Tensors []Call        `json:"tensors,omitempty"` // submitted to queues and not done, the oldest first; at most 64
	Pending int           `json:"pending,omitempty"` // how many there are

	// Totals of calls that have ended.
	Calls uint64        `json:"calls"`
	Bytes uint64        `json:"bytes"`
	Time  time.Duration `json:"time"`
}

// Totals are sums of a rank's calls.
type Totals struct {
	Calls   uint64        // that have ended
	Bytes   uint64        // of their vectors
	Time    time.Duration // in calls, also in those that go on; 0 if it is not known
	Pending time.Duration // in which tensors of queues were pending: waited for other ranks, or for their turn
}

// Comm is a communicator.
type Comm struct {
	ID    uint64 `json:"id"` // equal on all its ranks
	Size  int    `json:"size"`
	Count uint64 `json:"count"`           // calls begun
	Calls []Call `json:"calls,omitempty"` // the last ones, at most 64; the newest is the last
}

// Call is a collective, a message, or a tensor of a queue.
type Call struct {
	Comm uint64 `json:"comm"` // the communicator's ID
	// in the communicator; of a message, that of the collective before it
	Number uint64        `json:"number,omitempty"`
	Kind   int           `json:"kind"`
	Bytes  uint64        `json:"bytes"`
	Name   string        `json:"name,omitempty"` // of a tensor
	More   int           `json:"more,omitempty"` // tensors besides the named one
	To     int           `json:"to"`             // of a message; -1 is none
	From   int           `json:"from"`
	Began  time.Duration `json:"began"` // ago
	Took   time.Duration `json:"took"`  // so far, unless Over
	Over   bool          `json:"over"`
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
