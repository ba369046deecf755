package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// Kind is a kind of fault.
type Kind string

// Kinds of faults. Those of the second group are transient: the job must go on.
const (
	RankKill       Kind = "rank-kill"
	RankTerm       Kind = "rank-term"
	RankHup        Kind = "rank-hup" // a program in Go takes SIGSEGV and SIGABRT for a panic of its own
	RankExit       Kind = "rank-exit"
	AgentKill      Kind = "agent-kill"
	GuardKill      Kind = "guard-kill"
	BothKill       Kind = "agent-and-guard-kill"
	SessionKill    Kind = "sshd-session-kill"
	LauncherKill   Kind = "launcher-kill"
	LauncherTerm   Kind = "launcher-term"
	LauncherInt    Kind = "launcher-int"
	LauncherIntInt Kind = "launcher-int-int"
	LauncherHup    Kind = "launcher-hup"
	OutputClosed   Kind = "stdout-closed"
	Reset          Kind = "connection-reset"
	HostCut        Kind = "host-cut"
	DropToHost     Kind = "drop-to-host"
	DropFromHost   Kind = "drop-from-host"

	RankStop     Kind = "rank-stop"
	AgentStop    Kind = "agent-stop"
	GuardStop    Kind = "guard-stop"
	SessionStop  Kind = "sshd-session-stop"
	LauncherStop Kind = "launcher-stop"
	HostBlip     Kind = "host-blip"
	BlipToHost   Kind = "blip-to-host"
	BlipFromHost Kind = "blip-from-host"

	None Kind = ""
)

// Phase is the stage of a job at which a fault happens.
type Phase string

// Phases, in the order of a job's life.
const (
	Connecting Phase = "connecting"
	Staging    Phase = "staging"
	Starting   Phase = "starting"
	Running    Phase = "running"
	Ending     Phase = "ending"
)

// kindInfo says how a fault is made, and its consequence that docs/reliability.md promises.
type kindInfo struct {
	kind   Kind
	victim string         // the processes that get the signal, see Testbed.victims; "": it is no signal
	signal syscall.Signal // SIGSTOP: and SIGCONT later
	code   int            // the launcher's exit code; 0: the job goes on
	cause  string         // regular expression of the launcher's error, with HOST for the host; "": it prints none
	detect time.Duration  // until the launcher knows
}

func kinds() []kindInfo {
	const (
		network = 6500 * time.Millisecond
		lost    = `\bHOST( \([0-9.:]+\))?: `
		rank    = `rank \d on HOST `
	)
	return []kindInfo{
		{RankKill, "rank", syscall.SIGKILL, 137, rank + `was killed by signal 9`, 0},
		{RankTerm, "rank", syscall.SIGTERM, 143, rank + `was killed by signal 15`, 0},
		{RankHup, "rank", syscall.SIGHUP, 129, rank + `was killed by signal 1 `, 0},
		{RankExit, "rank", syscall.SIGUSR2, 3, rank + `exited with code 3`, 0},
		{AgentKill, "agent", syscall.SIGKILL, 125, lost, 0},
		{GuardKill, "guard", syscall.SIGKILL, 125, lost, 0},
		{BothKill, "agent and guard", syscall.SIGKILL, 125, lost, 0},
		{SessionKill, "session", syscall.SIGKILL, 125, lost, 0},
		{LauncherKill, "launcher", syscall.SIGKILL, 137, "", 0},
		{LauncherTerm, "launcher", syscall.SIGTERM, 143, "", 0},
		{LauncherInt, "launcher", syscall.SIGINT, 130, "", 0},
		{LauncherIntInt, "launcher", syscall.SIGINT, 130, "", 0},
		{LauncherHup, "launcher", syscall.SIGHUP, 129, "", 0},
		{OutputClosed, "", 0, 141, "", 0},
		{Reset, "", 0, 125, lost, 0},
		{HostCut, "", 0, 125, lost, network},
		{DropToHost, "", 0, 125, lost, network},
		{DropFromHost, "", 0, 125, lost, network},
		{RankStop, "rank", syscall.SIGSTOP, 0, "", 0},
		{AgentStop, "agent", syscall.SIGSTOP, 0, "", 0},
		{GuardStop, "guard", syscall.SIGSTOP, 0, "", 0},
		{SessionStop, "session", syscall.SIGSTOP, 0, "", 0},
		{LauncherStop, "launcher", syscall.SIGSTOP, 0, "", 0},
		{HostBlip, "", 0, 0, "", 0},
		{BlipToHost, "", 0, 0, "", 0},
		{BlipFromHost, "", 0, 0, "", 0},
	}
}

func infoOf(k Kind) kindInfo {
	all := kinds()
	if i := slices.IndexFunc(all, func(i kindInfo) bool { return i.kind == k }); i >= 0 {
		return all[i]
	}
	return kindInfo{}
}

// passes reports whether the fault is transient and the job goes on.
func (k kindInfo) passes() bool { return k.code == 0 }

// Injection is one job and the faults that happen to it. Its seed alone determines it.
type Injection struct {
	Seed   uint64
	Fault  Kind
	Phase  Phase
	Host   string        // f1 or f2
	Delay  time.Duration // into the phase
	Lasts  time.Duration // of a fault that passes
	Second Kind          // another fault, on the other host
	Gap    time.Duration // between the two
	Ignore bool          // the ranks ignore SIGTERM
	Daemon bool          // every rank leaves a child that has shed what ties it to its parent
	Reduce bool          // the ranks add numbers up
}

// Draw returns the injection of a seed.
func Draw(seed uint64) Injection {
	r := rand.New(rand.NewPCG(seed, 0x676f72756e))
	d := Injection{Seed: seed, Host: fmt.Sprintf("f%d", 1+r.IntN(2)), Phase: Running}
	switch n := r.IntN(20); {
	case n < 2:
		d.Phase = Connecting
	case n < 4:
		d.Phase = Staging
	case n < 6:
		d.Phase = Starting
	case n < 8:
		d.Phase = Ending
	}
	d.Ignore = r.IntN(4) == 0
	d.Daemon = r.IntN(3) == 0
	d.Reduce = r.IntN(3) == 0
	candidates := slices.DeleteFunc(kinds(), func(k kindInfo) bool { return !d.mayBe(k) })
	d.Fault = candidates[r.IntN(len(candidates))].kind
	d.Delay = time.Duration(r.Int64N(int64(80 * time.Millisecond)))
	d.Lasts = 100*time.Millisecond + time.Duration(r.Int64N(int64(3400*time.Millisecond)))
	second := slices.DeleteFunc(candidates, func(k kindInfo) bool {
		return k.passes() || k.detect > 0 || k.kind == d.Fault
	})
	if r.IntN(4) == 0 && d.Phase == Running {
		d.Second = second[r.IntN(len(second))].kind
		d.Gap = time.Duration(r.Int64N(int64(time.Second)))
	}
	return d
}

// mayBe reports whether a fault of kind k makes sense for the job.
func (d Injection) mayBe(k kindInfo) bool {
	early := d.Phase == Connecting || d.Phase == Staging || d.Phase == Starting
	switch {
	case k.victim == "rank" && early:
		return false
	case k.kind == RankTerm && d.Ignore:
		return false
	case k.kind == OutputClosed && d.Phase != Running: // nothing is printed, so the launcher would not notice
		return false
	}
	return true
}

// other returns the host of the second fault.
func (d Injection) other() string {
	if d.Host == "f1" {
		return "f2"
	}
	return "f1"
}

// unwatched returns the host where agent and guard were both killed, or "".
func (d Injection) unwatched() string {
	switch BothKill {
	case d.Fault:
		return d.Host
	case d.Second:
		return d.other()
	}
	return ""
}
