package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/net/untrusted"
)

// Hello opens the frame stream on each side.
type Hello struct {
	Protocol int
	Build    string // identifies the executable's content; both sides must agree
	PID      int    `json:",omitempty"` // process ID of the agent; set only by agents, as are the fields below
	Hostname string `json:",omitempty"`
	Arch     string `json:",omitempty"` // GOARCH
	// Addresses are the host's own, at most MaxAddresses.
	Addresses []Address `json:",omitempty"`
	// Reached is the address at which sshd was reached, Caller the address it
	// was reached from (SSH_CONNECTION); empty without SSH.
	Reached string `json:",omitempty"`
	Caller  string `json:",omitempty"`
	// Boot identifies the running kernel: two names with one Boot are one machine.
	Boot string `json:",omitempty"`
	// Cores is how many ranks the agent's host can keep busy: cores that the agent may use.
	Cores int `json:",omitempty"`
	// LacksGPUProgram: the host has an NVIDIA driver and no gorun-gpu. Partitioned: besides, it has
	// MIG instances, which only gorun-gpu can name.
	LacksGPUProgram bool `json:",omitempty"`
	Partitioned     bool `json:",omitempty"`
}

// MaxAddresses is the most addresses in a hello.
const MaxAddresses = 256

// Address is one IP address of a host, and what its interface is like.
type Address struct {
	Interface string
	Prefix    netip.Prefix // the address with the length of its subnet; invalid: the interface has no address
	Up        bool         `json:",omitempty"` // whether the interface and its link are up
	Loopback  bool         `json:",omitempty"`
	Speed     int          `json:",omitempty"` // Mbit/s; 0: unknown
}

// Job describes the ranks of a host.
type Job struct {
	ID    string
	Epoch int
	Key   []byte   // 32 bytes, secret
	Size  int      // ranks in the whole job
	Hosts int      // hosts in the whole job
	Host  string   // this host's name as the user wrote it
	Env   Texts    // NAME=value, laid over the agent's own environment
	Drop  []string `json:",omitempty"` // names to remove from the agent's own environment
	// Programs are run by this host's ranks.
	Programs []Program
	// Shares are the numbers of ranks of all programs of the job, in the order of the ranks;
	// empty: there is one program.
	Shares []int `json:",omitempty"`
	Ranks  []Rank
	// Tools are for some of this host's ranks, each at most once.
	Tools []Tool `json:",omitempty"`
	// Stdin lists this host's ranks that get the launcher's standard input.
	Stdin []int `json:",omitempty"`
	// Grace is the time between TERM and KILL when the agent must stop by itself.
	Grace time.Duration
	Settings
	// AllNetworks makes ring send over all networks that join two hosts, unless the environment
	// says otherwise.
	AllNetworks bool `json:",omitempty"`
	GPUs        GPUs
	MPI         MPI
	Spawn       Spawn
	// Stay: the host waits for ranks that others spawn until the launcher stops it. It may have no
	// ranks of its own, and no program then belongs to one.
	Stay bool `json:",omitempty"`
	// Results: each rank gets a descriptor for its result, which is an output stream.
	Results bool `json:",omitempty"`
	// SSH: the launcher is connected by SSH, so that SSH_CONNECTION describes the agent's
	// connection.
	SSH bool `json:",omitempty"`
	// Elastic is set for a process of an elastic job, which is the job's only rank here.
	Elastic *Elastic `json:",omitempty"`
}

// Settings are the settings of a job that hosts get as the user of the launcher gave them.
type Settings struct {
	// Bare: programs get no variables and files of a rank, but GORUN_HOSTNAME.
	Bare    bool `json:",omitempty"`
	Encrypt bool `json:",omitempty"` // whether ranks encrypt the data that they send over networks
	// NoNewPrivileges keeps ranks and their children from gaining privileges by programs with
	// setuid bits or file capabilities, such as sudo.
	NoNewPrivileges bool    `json:",omitempty"`
	Binding         Binding // the binding policy
	// Launcher is srun or flux if ranks also get the variables by which that launcher tells them
	// their numbers; "": they do not.
	Launcher string `json:",omitempty"`
}

// MPI is how ranks of MPI programs find each other.
type MPI struct {
	// Way is that of all programs; "" is the one of the MPI that each is linked with.
	Way MPIWay `json:",omitempty"`
	// OpenMPI4 is the library by which programs of Open MPI up to 4.1 use PMI-1, PMIx the program
	// that serves those of later ones, compressed, both built for the host; empty: there is none. A
	// job has neither: agents ask for what they need.
	OpenMPI4 []byte `json:",omitempty"`
	PMIx     []byte `json:",omitempty"`
}

// Need names the parts of an MPI that a host's programs need.
type Need struct {
	OpenMPI4 bool `json:",omitempty"`
	PMIx     bool `json:",omitempty"`
}

// MPIWay is how MPI programs find each other.
type MPIWay string

const (
	MPIPMI1     MPIWay = "pmi1"  // MPICH and its derivatives
	MPIOpenMPI4 MPIWay = "ompi4" // Open MPI up to 4.1
	MPIPMIx     MPIWay = "pmix"  // Open MPI from 5.0 on
)

// Arch stands for a host's architecture, as Go names it, in the path of a program and of a folder.
const Arch = "%a"

// ForArch returns a path on hosts of an architecture.
func ForArch(arch, path string) string { return strings.ReplaceAll(path, Arch, arch) }

// Program is run by some ranks.
type Program struct {
	Argv Texts    // program name, a path of which may contain [Arch], and arguments
	Env  Texts    `json:",omitempty"` // NAME=value, laid over the job's
	Drop []string `json:",omitempty"` // names to remove from the host's own environment, beside the job's
	Wdir Text     // absolute path
	// Python is the path of a Python environment that the ranks run in; "": that of the host.
	Python Text `json:",omitempty"`
	// Ranks is how many consecutive ranks of the job run it, DropHere names to remove on the
	// launcher's machine, whose environment is the launcher's own. Agents need neither.
	Ranks    int      `json:"-"`
	DropHere []string `json:"-"`
}

// Tool changes how one rank starts: under another command, in a terminal, or stopped.
type Tool struct {
	Rank int
	Argv Texts `json:",omitempty"` // launcher command and its arguments; none: the program starts directly
	// Terminal is the kind (TERM) of the rank's own terminal, which has its standard files; "": it
	// has pipes.
	Terminal string `json:",omitempty"`
	Halt     bool   `json:",omitempty"` // the rank is stopped before its first instruction, for a debugger
}

// Rank is one process to start. Its cross rank counts the hosts before its own that have its local
// rank.
type Rank struct {
	Rank, LocalRank, CrossRank, CrossSize int
	Program                               int // index into the programs of its host
	// Cores are those of a rankfile: 0-3, or 1:0-3 for the cores of socket 1; "": the job's binding
	// counts.
	Cores string `json:",omitempty"`
}

// Ready reports that the job can start on this host: working directory and program exist, the rank
// server listens.
type Ready struct {
	FreePort int // a port that was free on this host, for MASTER_PORT
	Places   []Placement
	// Contained describes the cage of the ranks.
	Contained string `json:",omitempty"`
	// Note is a sentence for the user about what the job lacks; "": nothing.
	Note string `json:",omitempty"`
	// PMIx: the host needs to know where all ranks are.
	PMIx bool `json:",omitempty"`
	// GPUs describes the host's GPUs and their assignment; "": none.
	GPUs string `json:",omitempty"`
	// Line: the agent watches its SSH connection, and ends its ranks when nothing of what it sends
	// is acknowledged.
	Line bool `json:",omitempty"`
}

// Want asks for files of the offered folder, in the order of the offer.
type Want struct {
	Files []WantedFile
	More  bool `json:",omitempty"` // another Want follows
}

// WantedFile is a file of the offered folder.
type WantedFile struct {
	Index int // index into the offer
	// SHA-256 of the host's file of the same size and another time; nil: it lacks the file
	Sum []byte `json:",omitempty"`
}

// Staged reports that ranks can start in the offered folder.
type Staged struct {
	Shared bool   `json:",omitempty"` // whether the host sees the original folder
	Dir    []byte `json:",omitempty"` // absolute path of the copy, unless Shared
}

// Refuse is why the agent cannot do what it was asked before the ranks start, an error. Code is
// gorun's exit code.
type Refuse struct {
	Code   int
	What   string // error text for `gorun: error:`
	Remedy string // next step for `gorun: hint:`; may be empty
}

func (r *Refuse) Error() string { return r.What }

// Hint is the next step, or "".
func (r *Refuse) Hint() string { return r.Remedy }

// Refusef returns a refusal; the sentence around the format names the host.
func Refusef(code int, hint, format string, args ...any) error {
	return &Refuse{Code: code, What: fmt.Sprintf(format, args...), Remedy: hint}
}

// Exit codes of a host or program that cannot run, as shells have them.
const (
	CodeHostFailed    = 125
	CodeNotExecutable = 126
	CodeNotFound      = 127
	CodeSignalBase    = 128 // base of exit codes: plus the number of the signal that ended the rank
	// of a guard: plus the number of the signal that ended its agent, of which no process is left
	CodeSweptBase = 192
)

// SignalCode is the exit code of a program that a signal ended, as shells have it.
func SignalCode(signal syscall.Signal) int { return CodeSignalBase + int(signal) }

// Start starts the ranks, when every host of the job is ready.
type Start struct {
	Addrs []string // this host's addresses as the other hosts should use them, best first
	// Interfaces are this host's interfaces for NCCL; empty: the one with the first address, or
	// loopback's where all ranks are on this host.
	Interfaces []string `json:",omitempty"`
	Asked      bool     `json:",omitempty"` // whether the user chose the interfaces
	MasterAddr string   // address of rank 0's host
	MasterPort int
	Mapping    string // ranks per node in MPICH's format
	// Hosts are those of the job, HostOf the index of each rank's among them, and Host that of this
	// one, for a host that is ready for PMIx.
	Hosts  []string `json:",omitempty"`
	HostOf []int    `json:",omitempty"`
	Host   int      `json:",omitempty"`
}

// Exit reports a rank's end.
type Exit struct {
	Rank    int
	Code    int           // exit status; 0 when Signal is set
	Signal  int           `json:",omitempty"` // number of the signal that ended the rank
	Core    bool          `json:",omitempty"`
	Stopped bool          `json:",omitempty"` // whether the agent signalled the rank before it ended
	Aborted bool          `json:",omitempty"` // whether the rank was told to abort before it ended
	At      time.Duration // agent's monotonic clock, same as in heartbeats
	MPI     MPIEnd        `json:",omitempty"`
	// Asked is the code given to MPI_Abort; Code is its low 8 bits, which an exit status can hold.
	Asked int `json:",omitempty"`
	// Failed is why the rank did not start, with Code 125, 126 or 127; Remedy is the next step.
	Failed string `json:",omitempty"`
	Remedy string `json:",omitempty"`
	// Program is the path of a program that started and failed.
	Program string `json:",omitempty"`
	// MaxRSS is its peak memory in bytes, or that of the largest process it waited for. CPU is
	// the time, user and system, that it and they used.
	MaxRSS int64         `json:",omitempty"`
	CPU    time.Duration `json:",omitempty"`
	// OutOfMemory is set if the kernel killed it because memory ran out, as far as is
	// known. MemoryLimit is the limit in bytes for MemoryOfGroup.
	OutOfMemory OutOfMemory `json:",omitempty"`
	MemoryLimit int64       `json:",omitempty"`
}

// MPIEnd is how a rank ended for MPI; "" is an end that its exit status describes.
type MPIEnd string

// Ends of MPI programs. Code is the one given to MPI_Abort, or 0.
const (
	MPIAborted    MPIEnd = "aborted"    // the rank called MPI_Abort
	MPIUnfinished MPIEnd = "unfinished" // the rank ended between MPI_Init and MPI_Finalize
)

// OutOfMemory names the memory that ran out.
type OutOfMemory string

// Memory that may run out.
const (
	MemoryOfHost  OutOfMemory = "host"
	MemoryOfGroup OutOfMemory = "cgroup"   // a cgroup's limit was reached
	MemoryLikely  OutOfMemory = "probably" // the host's memory ran out, and the kernel does not name the process
)

// Done is an agent's last message. Without a payload no process is left.
type Done struct {
	// Unkillable are processes that SIGKILL did not end, at most MaxUnkillable.
	Unkillable []Process `json:",omitempty"`
}

// MaxUnkillable is the most processes in a done.
const MaxUnkillable = 64

// Process is a process of a host.
type Process struct {
	PID   int
	Name  string
	State string // state letter as in proc(5): D waits in the kernel
}

// Stop ends the job on a host: TERM to every rank's process group, KILL to all
// that is left after Grace.
type Stop struct{ Grace time.Duration }

// Signal passes a signal on to every rank's process group.
type Signal struct{ Number int }

// Abort reports to ranks that the job cannot go on.
type Abort struct {
	Epoch int    `json:"epoch,omitempty"` // epoch of an elastic job that failed
	Rank  int    `json:"rank"`            // rank at fault, or -1
	Host  string `json:"host"`
	Cause string `json:"cause"`
}

// Lost reports that a rank lost its connection to another rank.
type Lost struct {
	Epoch    int `json:",omitempty"` // epoch of an elastic job
	By, Rank int
	Cause    string
	// Awaited: Rank is By, and has ended while Waiter waits for it in MPI, which cannot go on
	// without it.
	Awaited bool `json:",omitempty"`
	Waiter  int  `json:",omitempty"`
	Left    bool `json:",omitempty"` // whether Rank left shared communication in order: the job may go on
	Abort   bool `json:",omitempty"` // whether By ends the job, also an elastic one
}

// EndedBefore is the loss of a rank of an epoch that has ended while another waits for it in a
// fence, which that one may have entered by a fault of its own.
func EndedBefore(fence string, epoch, rank, waiter int) Lost {
	return Lost{
		Epoch:   epoch,
		By:      rank,
		Rank:    rank,
		Cause:   fmt.Sprintf("it ended while rank %d waited for it in fence %q", waiter, fence),
		Awaited: IsMPIFence(fence),
		Waiter:  waiter,
	}
}

// Entered lists all ranks of the host that have called MPI_Init. It comes when some of the job's
// ranks do so late.
type Entered struct{ Ranks []int }

// IsMPIFence reports whether a fence is one of MPI's, in which all ranks of the job take part.
func IsMPIFence(name string) bool {
	return strings.HasPrefix(name, "pmi/") || strings.HasPrefix(name, "pmix/")
}

// Failing reports that an agent ends its ranks and itself without a request of the launcher.
type Failing struct {
	GuardGone bool   // whether the agent's guard was killed
	Signal    string // signal that the agent received, also from itself after its guard exited
	Broken    string `json:",omitempty"` // reason why the agent cannot serve its ranks any more
}

// Note is a line of a rank for the user.
type Note struct {
	By    int
	Text  string
	Stall bool `json:",omitempty"` // whether the text reports ranks that have not entered a collective
	// Detail: the text is only for a user who follows details.
	Detail bool `json:",omitempty"`
}

// Put stores a value.
type Put struct {
	Key   string
	Value []byte
}

// Get asks for a value. The answer is a Value with the same ID, when the
// key exists or after Wait.
type Get struct {
	ID   uint64
	Key  string
	Wait time.Duration
}

// Value answers a Get.
type Value struct {
	ID    uint64
	Found bool
	Value []byte
}

// Fence carries values by rank: one host's to the launcher, all of them back.
type Fence struct {
	Epoch  int `json:",omitempty"` // epoch of an elastic job
	Name   string
	Values map[int][]byte
}

// SendMessage writes a control message as JSON. One that the other end would refuse, as what a rank
// asks for may be, is a *[FormatError] and not sent.
func (w *Writer) SendMessage(t Type, message any) error {
	payload, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode %s message: %w", t, err)
	}
	if most := t.maxValues(); len(payload) > most && untrusted.Values(payload) > most {
		return &FormatError{fmt.Sprintf("%s message of more than %d values", t, most)}
	}
	return w.Send(t, 0, payload)
}

// Decode reads a control message out of f into message.
func (f Frame) Decode(message any) error {
	if err := untrusted.Unmarshal(f.Payload, f.Type.maxValues(), message); err != nil {
		return &FormatError{fmt.Sprintf("%s message: %.200s", f.Type, err.Error())} // the cause may quote the message
	}
	return nil
}

// Expect decodes f into message, as Decode does. A frame of another type than want is a
// *FormatError.
func (f Frame) Expect(want Type, message any) error {
	if f.Type != want {
		return &FormatError{fmt.Sprintf("%s came where %s was due", f.Type, want)}
	}
	return f.Decode(message)
}

// Handle decodes a control message and hands it to handle.
func Handle[T any](f Frame, handle func(T) error) error {
	var message T
	if err := f.Decode(&message); err != nil {
		return err
	}
	return handle(message)
}

// SendCredit returns credit for frames of a bulk stream that cost n together. 0 means that no rank
// reads it any more.
func (w *Writer) SendCredit(stream uint32, n int) error {
	return w.Send(TypeCredit, stream, binary.BigEndian.AppendUint32(nil, uint32(n)))
}

// Credit reads a credit frame.
func (f Frame) Credit() (int, error) {
	if len(f.Payload) != 4 {
		return 0, &FormatError{"credit frame without 4 bytes"}
	}
	n := binary.BigEndian.Uint32(f.Payload)
	if n > Window {
		return 0, &FormatError{fmt.Sprintf("credit of %d, at most %d allowed", n, Window)}
	}
	return int(n), nil
}

// SendHeartbeat sends a sign of life; at is the sender's monotonic
// clock.
func (w *Writer) SendHeartbeat(at time.Duration) error {
	return w.Send(TypeHeartbeat, 0, binary.BigEndian.AppendUint64(nil, uint64(at)))
}

// Heartbeat reads a heartbeat frame.
func (f Frame) Heartbeat() (time.Duration, error) {
	if len(f.Payload) != 8 {
		return 0, &FormatError{"heartbeat frame without 8 bytes"}
	}
	return time.Duration(binary.BigEndian.Uint64(f.Payload)), nil
}

// The output streams of a rank. A rank has a result stream only if its job has results; its
// descriptor has another number in the rank.
const (
	Stdout = 1
	Stderr = 2
	Result = 3
)

// OutputStream numbers a rank's stdout, stderr or result.
func OutputStream(rank, fd int) uint32 { return uint32(rank)<<2 | uint32(fd)&3 }

// RankFD is the inverse of OutputStream. fd is 0 for a number that is no output stream's.
func RankFD(stream uint32) (rank, fd int) { return int(stream >> 2), int(stream & 3) }

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

// Spawn is which ranks may be started on a host by MPI_Comm_spawn. Their numbers are First,
// First+Step and so on, Total at most.
type Spawn struct {
	First, Step, Total int
	Most               int // limit of spawned ranks that run at a time; 0: no spawning
	Universe           int // MPI_UNIVERSE_SIZE; 0: the job's size
	// Anywhere: ranks of the host may start others on all hosts of the job, not only there.
	Anywhere bool `json:",omitempty"`
}

// Has reports whether a rank is one that may be spawned on the host.
func (s Spawn) Has(rank int) bool {
	return s.Total > 0 && rank >= s.First && (rank-s.First)%s.Step == 0 && (rank-s.First)/s.Step < s.Total
}

// SpawnRequest asks for more ranks on behalf of a rank of the host.
type SpawnRequest struct {
	ID       uint64 // number of the request, unique to the agent
	By       int    // rank that asks
	Programs []SpawnProgram
	Given    map[string][]byte `json:",omitempty"` // values that the new ranks can get over PMI-1
}

// SpawnProgram is run by so many of the new ranks.
type SpawnProgram struct {
	Argv Texts
	Env  Texts `json:",omitempty"` // NAME=value, laid over those of the host's program
	Dir  Text  `json:",omitempty"` // working directory; empty: that of the host's program
	// where they must run: names of hosts with commas, each perhaps with :SLOTS; "": anywhere
	Host string `json:",omitempty"`
	// Ranks is their number, 1 at least.
	Ranks int
}

// World is ranks that a rank has spawned, for all hosts of the job; or, for the host that asked,
// why there are none.
type World struct {
	ID      uint64 // number of the request
	By      int
	Refused string `json:",omitempty"`

	Number int // 1-based number of the world, in the order of the requests
	// For a host without a rank of the world, Programs have only numbers of ranks, and Given is
	// nil.
	Programs []SpawnProgram
	Given    map[string][]byte `json:",omitempty"`
	Numbers  []int             // numbers of the world's ranks in the job, by rank
	HostOf   []int             // index of each rank's host among the job's, by rank
}

// Units that ranks are bound to.
const (
	BindThread = "hwthread"
	BindCore   = "core"
	BindL2     = "l2cache"
	BindL3     = "l3cache"
	BindNode   = "numa"
	BindSocket = "socket"
	BindList   = "cpu-list" // all cores that ranks may use
)

// Binding is the binding policy of all hosts.
type Binding struct {
	To          string `json:",omitempty"` // a unit; "": ranks are not bound
	Each        int    `json:",omitempty"` // cores per rank, or hardware threads if To is BindThread; 0: not set
	Overload    bool   `json:",omitempty"` // ranks may share units
	IfSupported bool   `json:",omitempty"` // ranks stay unbound if the system forbids binding
	Near        bool   `json:",omitempty"` // the user has set no binding: ranks go to the NUMA nodes of their GPUs
	Soft        bool   `json:",omitempty"` // the mapping implies To: ranks stay unbound where cores are too few
	Over        string `json:",omitempty"` // the unit that ranks are dealt to; "": neighbours stay together
	Fill        int    `json:",omitempty"` // ranks that a unit of Over gets before the next; 0: one each in turn
	// BindCore: ranks are numbered in the order of cores; a larger unit: one on each in turn; "":
	// as dealt
	Number string `json:",omitempty"`
	Cores  string `json:",omitempty"` // the cores that ranks may use, in this order: 4,0-3; "": all
	// the hardware threads of each local rank in turn, by the kernel: 0-3,4-7+12; "": To counts
	CPUs string `json:",omitempty"`
}

// Units are how many of each unit a host has that ranks can be bound to, by name.
type Units map[string]int

// Placement is where a rank runs on its host.
type Placement struct {
	Rank    int
	CPUs    string `json:",omitempty"` // hardware threads in the kernel's format, 0-3,8; "": it is not bound
	Where   string `json:",omitempty"` // CPUs in words: cores 2-3 of socket 0
	Threads int    `json:",omitempty"` // OMP_NUM_THREADS that the agent sets; 0: unset
	// GPUs are the rank's GPUs by index, or by UUID if they are partitioned.
	GPUs []string `json:",omitempty"`
}

// GPUs is a request for GPUs. The zero value is auto.
type GPUs struct {
	Leave   bool `json:",omitempty"` // the agent neither lists nor assigns GPUs
	PerRank int  `json:",omitempty"` // GPUs per rank; 0: auto
	Listed  int  `json:",omitempty"` // GPUs in the hostfile, which bound the assigned ones; 0: no bound
}
