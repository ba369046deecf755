// Package stacks merges what the ranks of a job do at one moment: which of them wait for which, and
// their stacks as one tree. It is pure; package inspect collects the reports on the hosts.
package stacks

import (
	"github.com/gorun/gorun/internal/sight/flight"
	"github.com/gorun/gorun/internal/sight/ras"
	"github.com/gorun/gorun/internal/sight/recorder"
)

// Rank is the report about one rank. It comes from a host and is not trusted.
type Rank struct {
	Rank      int                `json:"rank"`
	Host      string             `json:"host"`
	Record    *recorder.Snapshot `json:"record,omitempty"` // record of ring; nil: none
	Processes []Process          `json:"processes,omitempty"`
	// Flight is PyTorch's flight recorder; nil: the rank has none that answers.
	Flight   *flight.Dump `json:"flight_recorder,omitempty"`
	NoFlight string       `json:"no_flight_recorder,omitempty"` // reason why the rank's flight recorder did not answer
	// RAS is NCCL's view of all ranks, for which rank 0 alone is asked.
	RAS   *ras.Status `json:"nccl_ras,omitempty"`
	Error string      `json:"error,omitempty"` // reason why nothing is known
}

// Process is the rank's own process or a descendant.
type Process struct {
	PID     int      `json:"pid"`
	Parent  int      `json:"parent"`
	Name    string   `json:"name"`  // names of the program and its first argument
	State   string   `json:"state"` // state letter as in proc(5)
	Tasks   int      `json:"tasks"` // threads
	Waits   string   `json:"waits,omitempty"`
	Kernel  string   `json:"kernel,omitempty"` // kernel function in which the process waits
	Sockets []string `json:"sockets,omitempty"`
	By      string   `json:"by,omitempty"`      // name of the tool that read the stacks
	Unknown string   `json:"unknown,omitempty"` // reason why stacks are missing
	Hint    string   `json:"hint,omitempty"`    // how to get more detail
	Threads []Thread `json:"threads,omitempty"` // threads, the main one first
}

// Thread is a thread or goroutine.
type Thread struct {
	Name   string  `json:"name,omitempty"`
	Frames []Frame `json:"frames"` // frames, the innermost first
}

// Frame is a function in progress.
type Frame struct {
	Func string `json:"func"`
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// Bounds on a host's report about one rank.
const (
	MaxProcesses = 64
	MaxThreads   = 64
	MaxFrames    = 128
	MaxSockets   = 32
	MaxCalls     = 1 << 14 // functions in progress in all threads
	MaxText      = 300     // bytes of a name
)

// Bounds on reports as JSON, in bytes.
const (
	MaxReport  = 32 << 20  // of one rank
	MaxReports = 256 << 20 // of all ranks of a host
)

// Trim cuts r to the bounds.
func (r *Rank) Trim() {
	r.Processes = r.Processes[:min(len(r.Processes), MaxProcesses)]
	room := MaxCalls
	for i := range r.Processes {
		p := &r.Processes[i]
		p.Sockets = p.Sockets[:min(len(p.Sockets), MaxSockets)]
		p.Threads = p.Threads[:min(len(p.Threads), MaxThreads)]
		for _, text := range []*string{&p.Name, &p.State, &p.Waits, &p.Kernel, &p.By, &p.Unknown, &p.Hint} {
			cut(text)
		}
		for j := range p.Sockets {
			cut(&p.Sockets[j])
		}
		for j := range p.Threads {
			t := &p.Threads[j]
			t.Frames = t.Frames[:min(len(t.Frames), MaxFrames, room)]
			room -= len(t.Frames)
			cut(&t.Name)
			for k := range t.Frames {
				cut(&t.Frames[k].Func)
				cut(&t.Frames[k].File)
			}
		}
	}
	if r.Record != nil {
		r.Record.Trim()
	}
	if r.Flight != nil {
		r.Flight.Trim()
	}
	if r.Rank != 0 {
		r.RAS = nil
	}
	if r.RAS != nil {
		r.RAS.Trim()
	}
	cut(&r.NoFlight)
	cut(&r.Error)
}

func cut(text *string) { *text = (*text)[:min(len(*text), MaxText)] }
