package wire

import "time"

// Ask begins an errand: something that a user wants of a host beside the job. The launcher numbers
// the errands of a session from 1.
type Ask struct {
	ID   uint32
	Kind AskKind
	// Ranks are those concerned, of this host; none: all.
	Ranks  []int
	Argv   Texts `json:",omitempty"` // command line for AskExec
	Signal int   `json:",omitempty"` // signal number for AskSignal
	Port   int   `json:",omitempty"` // TCP port for AskDial
	// Terminal gives the command of AskExec a terminal of its own; nil: it has pipes. For
	// AskTerminal it is the user's.
	Terminal *Terminal `json:",omitempty"`
	// Every is the time between the readings of AskWatch.
	Every time.Duration `json:",omitempty"`
}

// AskKind is the kind of an errand.
type AskKind string

// Kinds of errands.
const (
	AskExec      AskKind = "exec"      // run a command in the environment and directory of one rank
	AskSignal    AskKind = "signal"    // send a signal to ranks' process groups
	AskTerminal  AskKind = "terminal"  // connect with the terminal of one rank, until the rank ends
	AskProcesses AskKind = "processes" // print the processes of ranks that run, as JSON: {"3": 4711}
	AskStacks    AskKind = "stacks"    // report ranks' stacks: standard output has a stacks.Rank as JSON for each
	AskPulse     AskKind = "pulse"     // report ranks' progress: standard output has a stacks.Pulse as JSON for each
	AskWatch     AskKind = "watch"     // write Readings as lines of JSON until all ranks have ended
	AskDial      AskKind = "dial"      // connect with a TCP port of the host, by loopback
)

// Terminal describes a terminal.
type Terminal struct {
	Rows    uint16 `json:"rows"`
	Columns uint16 `json:"columns"`
	Name    string `json:"name"` // the variable TERM
}

// Tell is the first byte of a tell frame's payload.
type Tell byte

// Tells. TellIn, and TellOut and TellErr together, are limited by credit, which begins with Window.
const (
	TellIn     Tell = 1 + iota // L: bytes for the command's standard input; none: its end
	TellOut                    // A: bytes of standard output
	TellErr                    // A: bytes of standard error
	TellSize                   // L: Terminal as JSON, a new size
	TellCredit                 // L, A: uint32, credit returned
	TellEnd                    // A: ErrandEnd as JSON; L: the errand is cancelled
)

// ErrandEnd is the result of an errand.
type ErrandEnd struct {
	Code  int    `json:"code"`            // exit code of a command; 128 + n: signal n ended it
	Error string `json:"error,omitempty"` // cause of the errand's failure
	Hint  string `json:"hint,omitempty"`  // next step, or ""
}

// SendTell sends a tell of an errand.
func (w *Writer) SendTell(errand uint32, what Tell, data []byte) error {
	return w.Send(TypeTell, errand, append([]byte{byte(what)}, data...))
}

// MaxErrands bounds the errands of a host that have not ended, of which the launcher may have
// cancelled some.
const MaxErrands = 64

// MaxTell is the most bytes in a tell.
const MaxTell = MaxData - 1

// Tell returns what a tell frame is, and its bytes.
func (f Frame) Tell() (Tell, []byte, error) {
	if len(f.Payload) == 0 || Tell(f.Payload[0]) < TellIn || Tell(f.Payload[0]) > TellEnd {
		return 0, nil, &FormatError{"tell frame without a kind"}
	}
	return Tell(f.Payload[0]), f.Payload[1:], nil
}
