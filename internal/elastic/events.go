package elastic

import (
	"fmt"
	"time"

	"github.com/gorun/gorun/hostfile"
)

// Slot is a place for one process on a host, which keeps its number for life: cores and GPUs go by it.
type Slot struct {
	Host  string
	Local int
}

func (s Slot) String() string { return fmt.Sprintf("slot %d of %s", s.Local, s.Host) }

// Process names one process of a slot: the one started for the epoch Born.
type Process struct {
	Slot
	Born int
}

// Event is what the driver is told.
type Event interface{ event() }

// Events. Those of a process that is not there any more are ignored, and so are repetitions.
type (
	// Hosts are those that are believed to be there now, known ones first, each name once.
	Hosts struct{ List []hostfile.Host }
	// Ready: a process that was started waits to be let into the epoch that it was started for.
	Ready struct{ Process }
	// Joined: a process that was let into an epoch has found the others.
	Joined struct {
		Process
		Epoch int
	}
	// Parked: a process that was in the epoch Left asks for the next one, and does nothing else until it is answered.
	Parked struct {
		Process
		Left int
	}
	// Exited: a process ended.
	Exited struct {
		Process
		Code, Signal int
		Victim       bool          // it had said before that it lost another
		At           time.Duration // when, if that is known better than by the time of the event; 0: it is not
	}
	// StartFailed: a process never ran.
	StartFailed struct {
		Process
		Code int // 126, 127, or another that is not 0
		Err  error
	}
	// HostLost: nothing is known of a host any more.
	HostLost struct {
		Host string
		Err  error
	}
	// HostFenced: nothing of the job is alive on a host that was lost.
	HostFenced struct{ Host string }
	// UserStop: the user, or a time limit, wants the end.
	UserStop struct {
		Code int
		Now  bool // without grace
	}
	// Hold: nothing is to be added until the contrary is said.
	Hold struct{ Hold bool }
	// Tick: time has passed.
	Tick struct{}
)

func (Hosts) event()       {}
func (Ready) event()       {}
func (Joined) event()      {}
func (Parked) event()      {}
func (Exited) event()      {}
func (StartFailed) event() {}
func (HostLost) event()    {}
func (HostFenced) event()  {}
func (UserStop) event()    {}
func (Hold) event()        {}
func (Tick) event()        {}

// Action is what the driver wants done.
type Action interface{ action() }

// Actions.
type (
	// Start starts a new process with the numbers that it has in an epoch still to come.
	Start struct {
		Epoch  int
		Member Member
	}
	// Stop ends a process.
	Stop struct {
		Process
		Now bool // without grace
	}
	// Fence cuts off a host that was lost, and makes sure that nothing is alive there.
	Fence struct{ Host string }
	// Announce begins an epoch.
	Announce struct{ Plan Plan }
	// Interrupt tells the ranks of the epoch that hosts have changed: at their next commit they are to ask for another
	// epoch. It always means "added and removed" to Horovod (res=3): one who skips the sync while another does it waits for ever.
	Interrupt struct{ Epoch int }
	// Note is one line for the user and for the record of events.
	Note struct {
		Kind  NoteKind
		Epoch int    // the latest that was announced
		Host  string // "": none
		Text  string
	}
	// End is the last action: every process is gone, or on a host that was fenced.
	End struct {
		Code  int
		Cause string // why, where the code is not 0
	}
)

func (Start) action()     {}
func (Stop) action()      {}
func (Fence) action()     {}
func (Announce) action()  {}
func (Interrupt) action() {}
func (Note) action()      {}
func (End) action()       {}

// NoteKind says what a note is about, for programs.
type NoteKind string

// Kinds of notes.
const (
	NoteEpoch   NoteKind = "epoch"    // one began, and all have joined
	NoteHosts   NoteKind = "hosts"    // hosts came or went by the list
	NoteLost    NoteKind = "lost"     // a host was lost
	NoteFailed  NoteKind = "failed"   // a process failed
	NoteAside   NoteKind = "aside"    // a host gets no processes for a while
	NoteWaiting NoteKind = "waiting"  // there are too few slots
	NoteRefused NoteKind = "refused"  // what the list wants is not done
	NoteGaveUp  NoteKind = "gave up"  // a larger epoch did not come about
	NoteEnding  NoteKind = "ending"   // the job is being ended
	NoteSuccess NoteKind = "finished" // a rank has finished: no further epoch begins
)
