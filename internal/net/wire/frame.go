package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/gorun/gorun/internal/net/frames"
)

// Protocol is the version of this format. Both sides must have the same.
const Protocol = 6

const (
	// MaxData caps the payload of a bulk frame.
	MaxData = 64 << 10
	// MaxControl caps the payload of a control frame.
	MaxControl = 16 << 20
	// MaxHello caps the payload of a hello, which comes before either side trusts the other.
	MaxHello = 64 << 10
	// Window is the credit that every bulk stream starts with; see Cost.
	Window = 256 << 10

	headerSize = 12
)

// Type is the meaning of a frame.
type Type uint8

// Frame types. L: launcher to agent; A: agent to launcher.
const (
	TypeHello     Type = 1 + iota // L, A: Hello, the first frame each way
	TypeHeartbeat                 // L, A: 8 bytes, sender's monotonic nanoseconds
	TypeJob                       // L: Job
	TypeReady                     // A: Ready, the job can start here
	TypeRefuse                    // A: Refuse, the job cannot start here
	TypeStart                     // L: Start
	// A: raw bytes of a rank's stdout, stderr or result; none: it pauses, or ended, within a line
	TypeOutput
	TypeStdin     // L: raw bytes for the ranks of Job.Stdin; none: end of file
	TypeCredit    // L, A: uint32, credit returned for the stream
	TypeExit      // A: Exit
	TypeStop      // L: Stop
	TypeSignal    // L: Signal
	TypeAbort     // L: Abort, for every rank
	TypeLost      // A: Lost
	TypePut       // A: Put
	TypeGet       // A: Get
	TypeValue     // L: Value, answers Get
	TypeFence     // A: Fence, the values of this host's ranks
	TypeFenced    // L: Fence, the values of all ranks
	TypeDone      // A: Done, or nothing: every rank that can be ended has ended, and all output is sent
	TypeSuspend   // L: the launcher is being suspended: suspend the ranks, and expect no frames
	TypeResume    // L: the launcher continues
	TypeSuspended // A: the ranks are suspended
	TypeFailing   // A: Failing, the agent ends its ranks without a request of the launcher
	TypeNote      // A: Note
	TypeEpoch     // L: Epoch, which admits ranks of an elastic job
	TypeInterrupt // L: Interrupt, ranks ask for another epoch
	TypePark      // A: Park, a rank asks for the next epoch
	TypeJoined    // A: Joined, a rank has found the others of an epoch
	TypeProgram   // L: raw bytes of gorun-gpu, compressed, for an agent whose hello lacks it
	TypeListGPUs  // L: list the host's GPUs
	TypeGPUs      // A: gpu.Inventory, answers ListGPUs
	TypeFolder    // L: raw bytes of a work folder, see package workdir; A: of a list of files, see package fetch
	TypeWaiting   // A: the copy of the folder is locked by another launch
	TypeWant      // A: Want, files of the folder that the host lacks
	TypeStaged    // A: Staged, the host has the folder
	TypeAsk       // L: Ask, which begins an errand
	TypeTell      // L, A: a Tell and its bytes, of the errand that the stream numbers
	TypeEntered   // A: Entered
	TypeCount     // L: count the host's sockets, cores and the like
	TypeUnits     // A: Units, answers Count
	TypeOffer     // L: Offer, a file that hosts pass on, see package relay; A: a file that was asked for
	TypeOffered   // L, A: Offered, answers Offer
	TypePeers     // L: Peers, hosts that have or need the file
	TypePiece     // L, A: raw bytes of the file, after a Passed or Offered that asked for them
	TypePassed    // A: Passed, progress of the host
	TypeEnough    // L: every host has the file, or has failed
	TypeNeed      // A: Need, libraries that the job's programs need
	TypeMPI       // L: MPI, answers Need
	TypeSpawn     // A: SpawnRequest, a rank asks for more ranks
	TypeWorld     // L: World, ranks that a rank has asked for
	TypeFetch     // L: Fetch, asks for files of the host
	typeEnd
)

func (t Type) String() string {
	names := [...]string{"hello", "heartbeat", "job", "ready", "refuse", "start", "output", "stdin", "credit", "exit",
		"stop", "signal", "abort", "lost", "put", "get", "value", "fence", "fenced", "done",
		"suspend", "resume", "suspended", "failing", "note", "epoch", "interrupt", "park", "joined", "program",
		"list GPUs", "GPUs", "folder", "waiting", "want", "staged", "ask", "tell", "entered", "count", "units", "offer",
		"offered",
		"peers", "piece", "passed", "enough", "need", "MPI", "spawn", "world", "fetch"}
	if t == 0 || t >= typeEnd {
		return fmt.Sprintf("type %d", uint8(t))
	}
	return names[t-1]
}

func (t Type) maxPayload() int {
	switch t {
	case TypeOutput, TypeStdin, TypeProgram, TypeFolder, TypeTell, TypePiece:
		return MaxData
	case TypeHello:
		return MaxHello
	}
	return MaxControl
}

// maxValues bounds the values in a control message. Those of a launcher that grow with its job have
// no bound but their size.
func (t Type) maxValues() int {
	switch t {
	case TypeJob, TypeStart, TypeFenced, TypeWorld:
		return MaxControl
	}
	return 1 << 18
}

// Frame is one message. Payload belongs to the Reader and is overwritten by
// its next call.
type Frame struct {
	Type    Type
	Stream  uint32
	Payload []byte
}

// FormatError reports that the peer violated the protocol. The stream is of
// no further use.
type FormatError struct{ Reason string }

func (e *FormatError) Error() string { return "malformed frame: " + e.Reason }

// Reader reads frames. It is not safe for concurrent use.
type Reader struct{ frames *frames.Reader }

// NewReader returns a Reader on r, which it reads in whole frames, unbuffered.
func NewReader(r io.Reader) *Reader {
	return &Reader{frames.Codec{Head: headerSize, Check: checkHeader}.NewReader(r)}
}

// Next returns the next frame. At a frame boundary the end of the stream is
// io.EOF, inside a frame io.ErrUnexpectedEOF. A malformed header is a
// *FormatError.
func (r *Reader) Next() (Frame, error) {
	header, payload, err := r.frames.Next()
	if err != nil {
		return Frame{}, err
	}
	return Frame{Type: Type(header[4]), Stream: binary.BigEndian.Uint32(header[8:]), Payload: payload}, nil
}

func checkHeader(header []byte, size int) error {
	t := Type(header[4])
	switch {
	case t == 0 || t >= typeEnd:
		return &FormatError{fmt.Sprintf("unknown type %d", uint8(t))}
	case header[5] != 0 || header[6] != 0 || header[7] != 0:
		return &FormatError{fmt.Sprintf("reserved bits set in a %s frame", t)}
	case size > t.maxPayload():
		return &FormatError{fmt.Sprintf("%s frame of %d bytes, at most %d allowed", t, size, t.maxPayload())}
	}
	return nil
}

// Writer writes frames, one Write call per frame that is not large. It is safe for concurrent
// use. After the first error every call returns that error.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
	err error
}

// NewWriter returns a Writer on w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// keptBuffer is how large the buffer stays after a control message.
const keptBuffer = 4 << 10

// Send writes one frame. It blocks while w does.
func (w *Writer) Send(t Type, stream uint32, payload []byte) error {
	if len(payload) > t.maxPayload() {
		return &FormatError{fmt.Sprintf("%s frame of %d bytes, at most %d allowed", t, len(payload), t.maxPayload())}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	w.buf = binary.BigEndian.AppendUint32(w.buf[:0], uint32(len(payload)))
	w.buf = append(w.buf, byte(t), 0, 0, 0)
	w.buf = binary.BigEndian.AppendUint32(w.buf, stream)
	if len(payload) > MaxData { // not copied: a fence of all ranks goes to thousands of hosts at a time
		if _, w.err = w.w.Write(w.buf); w.err == nil {
			_, w.err = w.w.Write(payload)
		}
		return w.err
	}
	w.buf = append(w.buf, payload...)
	_, w.err = w.w.Write(w.buf)
	if cap(w.buf) > keptBuffer && t.maxPayload() > MaxData {
		w.buf = nil // a control message must not pin its memory in each of a launcher's thousands of sessions
	}
	return w.err
}
