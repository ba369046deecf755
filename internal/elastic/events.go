package elastic

import (
	"fmt"
	"time"

	"github.com/gorun/gorun/hostfile"
)

// Slot is room for one process on a host. A process keeps its slot for life; its cores and GPUs
// depend on it.
type Slot struct {
	Host  string
	Local int
}

func (s Slot) String() string { return fmt.Sprintf("slot %d of %s", s.Local, s.Host) }

// Process identifies a process: the one started in a slot for the epoch Born.
type Process struct {
	Slot
	Born int
}

// Event is an input of the driver.
type Event interface{ event() }

// Events. The driver ignores repetitions, and events of processes that have ended.
type (
	// Hosts is the debounced list of hosts, known ones first, each name once.
	Hosts struct{ List []hostfile.Host }
	// Spawned: a started process runs. A program that never asks for an epoch is recognised by it.
	Spawned struct{ Process }
	// Ready: a started process waits for its epoch.
	Ready struct{ Process }
	// Joined: a process admitted to an epoch has found the others.
	Joined struct {
		Process
		Epoch int
	}
	// Parked: a process that was in the epoch Left waits for the next one.
	Parked struct {
		Process
		Left int
	}
	// RankLost: a process says that it lost another rank, on which all members park.
	RankLost struct {
		Process
		Rank int
	}
	// Aborted: a process ends the job.
	Aborted struct {
		Process
		Cause string
	}
	// Exited: a process ended.
	Exited struct {
		Process
		Code, Signal int
		Text         string        // description of the exit; "" means that Code or Signal has it
		Victim       bool          // whether the process had reported the loss of another rank before
		At           time.Duration // time of the exit; 0 means the time of the event
	}
	// StartFailed: a process could not be started.
	StartFailed struct {
		Process
		Code int // 126, 127, or another nonzero code
		Err  error
	}
	// HostLost: a host is unreachable.
	HostLost struct {
		Host string
		Err  error
	}
	// HostFenced: no process of the job is alive on a lost host.
	HostFenced struct{ Host string }
	// Slow: a member keeps the others waiting. A spare takes its place, if one is ready.
	Slow struct {
		Process
		Text string // how slow it is
	}
	// UserStop: the user or a time limit ends the job.
	UserStop struct {
		Code int
		Now  bool // whether there is no grace period
	}
	// Tick: time has passed.
	Tick struct{}
)

func (Hosts) event()       {}
func (Ready) event()       {}
func (Joined) event()      {}
func (Parked) event()      {}
func (RankLost) event()    {}
func (Aborted) event()     {}
func (Exited) event()      {}
func (StartFailed) event() {}
func (HostLost) event()    {}
func (HostFenced) event()  {}
func (Slow) event()        {}
func (UserStop) event()    {}
func (Spawned) event()     {}
func (Tick) event()        {}

// Action is an output of the driver.
type Action interface{ action() }

// Actions.
type (
	// Start starts a process with the numbers that it will have in a coming epoch.
	Start struct {
		Epoch  int
		Member Member
	}
	// Stop stops a process.
	Stop struct {
		Process
		Now bool // whether there is no grace period
	}
	// Fence disconnects a lost host and ensures that no process of the job is alive there.
	Fence struct{ Host string }
	// Announce begins an epoch.
	Announce struct{ Plan Plan }
	// Interrupt tells the ranks of an epoch that hosts have changed: at their next commit they
	// park. To Horovod it always means "added and removed" (res=3), because a rank that skips the
	// sync while another performs it would hang. With Abort they wait for each other no longer,
	// since the epoch does not come about, or some of them do not park.
	Interrupt struct {
		Epoch int
		Abort bool
	}
	// Note is one line for the user and for the record of events.
	Note struct {
		Kind    NoteKind
		Epoch   int    // latest announced epoch
		Host    string // name of the host; "" means none
		Text    string
		Routine bool // whether the note occurs in every job, so that the user need not read it
	}
	// End is the last action: every process has ended or is on a fenced host.
	End struct {
		Code  int
		Cause string // cause of a nonzero Code
		Hint  string // what the user can do about the cause, or ""
	}
)

func (Start) action()     {}
func (Stop) action()      {}
func (Fence) action()     {}
func (Announce) action()  {}
func (Interrupt) action() {}
func (Note) action()      {}
func (End) action()       {}

// NoteKind classifies a note for programs.
type NoteKind string

// Kinds of notes.
const (
	NoteEpoch     NoteKind = "epoch"    // an epoch began, and all members have joined
	NoteHosts     NoteKind = "hosts"    // the list of hosts changed
	NoteLost      NoteKind = "lost"     // a host was lost
	NoteFailed    NoteKind = "failed"   // a process failed
	NoteAside     NoteKind = "aside"    // a host gets no processes for a while
	NoteWaiting   NoteKind = "waiting"  // there are too few slots
	NoteRefused   NoteKind = "refused"  // a change of the list is refused
	NoteAbandoned NoteKind = "gave up"  // an attempt to grow was abandoned
	NoteEnding    NoteKind = "ending"   // the job is being stopped
	NoteSuccess   NoteKind = "finished" // a rank has finished: no further epoch begins
	NoteUnaware   NoteKind = ""         // ranks are unaware of epochs; not for the record
)
