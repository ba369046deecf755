package agent

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/host/topology"
	"github.com/gorun/gorun/internal/host/warm"
)

// processes starts and reaps this agent's children. A pid is signalled only while it has not been
// reaped, under the lock that reaping takes, so a signal never reaches another process that got the
// pid later.
type processes struct {
	reaping sync.Mutex // held until the reaped processes are reported
	mu      sync.Mutex
	keys    map[int]processKey  // keys by pid, until reaped
	pids    map[processKey]int  // pids until reaped
	asked   map[processKey]bool // processes that got a signal to end while they ran
	cage    *contain.Cage
	starts  chan startRequest
	leaves  chan chan struct{} // no process is started any more; closed when the thread knows
	stopped chan struct{}
	bound   bool        // some process has CPUs of its own; only for the thread that starts them
	warm    *warm.Below // forks ranks; nil: ranks are started
	// started is told of the start of each rank where an interpreter is warm: why is the reason for
	// which it has not forked the rank, or "".
	started func(rank int, why string)
	exited  exitFunc
	sigchld chan os.Signal
	wg      sync.WaitGroup
}

// exitFunc takes the end of a process. asked is whether a signal to end had reached it.
type exitFunc func(key processKey, status syscall.WaitStatus, used syscall.Rusage, asked bool)

// processKey names a process while it runs.
type processKey struct {
	kind processKind
	id   int // a rank, or the number of the errand
}

type processKind int

const (
	rankProcess processKind = iota
	errandProcess
	helperProcess // serves ranks, and has no number: its end is not reported
)

type startRequest struct {
	key       processKey
	path      string
	argv, env []string
	dir       string
	files     []uintptr
	cpus      topology.Set        // binding of the rank; nil: the agent's own CPUs
	terminal  bool                // file 0 becomes its controlling terminal
	halt      bool                // it is stopped before its first instruction
	owner     *syscall.Credential // nil: the agent's user
	answer    chan error
}

// newProcesses starts processes in the cage. warm, which may be nil, forks some ranks.
func newProcesses(cage *contain.Cage, warm *warm.Below) *processes {
	p := &processes{
		cage:    cage,
		warm:    warm,
		keys:    map[int]processKey{},
		pids:    map[processKey]int{},
		asked:   map[processKey]bool{},
		starts:  make(chan startRequest),
		leaves:  make(chan chan struct{}),
		stopped: make(chan struct{}),
		sigchld: make(chan os.Signal, 1),
	}
	signal.Notify(p.sigchld, syscall.SIGCHLD)
	p.wg.Go(p.startLoop)
	return p
}

// beginReaping begins to reap all children, started here or not, and calls exited for those that
// have a key, one call at a time. From then on exec.Cmd cannot wait for a child.
func (p *processes) beginReaping(exited exitFunc) {
	p.exited = exited
	p.wg.Go(p.reapLoop)
}

// close ends the reaping and the thread that started the children: those that still run get their
// death signal.
func (p *processes) close() {
	signal.Stop(p.sigchld)
	close(p.stopped)
	p.wg.Wait()
}

// startLoop starts processes from one thread that lives as long as the agent:
// the kernel sends a child its death signal when the thread that made it ends.
func (p *processes) startLoop() {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	entered := p.cage.Enter()
	all, _ := topology.Affinity() // nil: unknown
	left := false
	for {
		select {
		case r := <-p.starts:
			if entered != nil {
				r.answer <- entered
				continue
			}
			if left {
				r.answer <- p.forkLater(r, all)
				continue
			}
			r.answer <- p.fork(r)
		case done := <-p.leaves:
			left = true
			_ = p.cage.Leave() // otherwise the agent dies with the ranks
			close(done)
		case <-p.stopped:
			return
		}
	}
}

// forkLater starts a process when the job's first ranks have been started, some of them perhaps on
// CPUs of their own. A spawned rank is born in the cage as well.
func (p *processes) forkLater(r startRequest, all topology.Set) error {
	if r.cpus == nil && p.bound {
		r.cpus = all
	}
	if r.key.kind == rankProcess {
		if err := p.cage.Enter(); err != nil {
			return err
		}
		defer func() { _ = p.cage.Leave() }()
	}
	return p.fork(r)
}

func (p *processes) fork(r startRequest) error {
	// A process inherits this thread's CPUs. They are not restored: of the job's first ranks of a
	// host all are bound or none is.
	if r.cpus != nil {
		p.bound = true
		if err := topology.SetAffinity(r.cpus); err != nil {
			return fmt.Errorf("bind it to cpus %s: %v", r.cpus, err) // not wrapped: the program is not at fault
		}
	}
	p.mu.Lock() // reaping must not see the pid before the table does
	defer p.mu.Unlock()
	if pid, forked := p.forkWarm(r); forked {
		p.know(pid, r.key)
		return nil
	}
	sys := &syscall.SysProcAttr{
		Setsid:     true,
		Setctty:    r.terminal,
		Ptrace:     r.halt,
		Pdeathsig:  syscall.SIGKILL,
		Credential: r.owner,
	}
	p.cage.Attach(sys)
	pid, err := syscall.ForkExec(r.path, r.argv, &syscall.ProcAttr{
		Dir:   r.dir,
		Env:   r.env,
		Files: r.files,
		Sys:   sys,
	})
	if err != nil {
		return err
	}
	p.know(pid, r.key)
	if r.halt {
		return haltChild(pid)
	}
	return nil
}

// know adds a process to the table; the caller holds mu.
func (p *processes) know(pid int, key processKey) {
	if key.kind != helperProcess {
		p.keys[pid] = key
		p.pids[key] = pid
	}
}

// forkWarm has the warm interpreter fork a rank, if it can.
func (p *processes) forkWarm(r startRequest) (pid int, forked bool) {
	if p.warm == nil || r.key.kind != rankProcess {
		return 0, false
	}
	why := errors.New("a debugger waits for its first instruction")
	if !r.halt {
		cpus, _ := topology.Affinity() // those of this thread, which a started rank would inherit
		pid, why = p.warm.Fork(warm.Rank{
			Path:            r.path,
			Argv:            r.argv,
			Env:             r.env,
			Dir:             r.dir,
			CPUs:            cpus,
			Files:           r.files,
			Terminal:        r.terminal,
			Score:           contain.OwnScore(),
			NoNewPrivileges: mayNotGain(),
		})
	}
	if why != nil {
		p.started(r.key.id, why.Error())
		return 0, false
	}
	p.started(r.key.id, "")
	return pid, true
}

// leave stops starting processes and leaves the cage, so that the ranks can be killed.
func (p *processes) leave() {
	done := make(chan struct{})
	p.leaves <- done
	<-done
}

// start starts a process in its own session and process group.
func (p *processes) start(r startRequest) error {
	r.answer = make(chan error, 1)
	p.starts <- r
	return <-r.answer
}

// startHelper starts a process in the ranks' cage that serves them.
func (p *processes) startHelper(path, dir string, argv, env []string, files []*os.File) error {
	r := startRequest{
		key:  processKey{kind: helperProcess},
		path: path,
		argv: argv,
		dir:  dir,
		env:  env,
	}
	for _, f := range files {
		r.files = append(r.files, f.Fd())
	}
	return p.start(r)
}

// endRank sends a signal of gorun's to a rank's process group while the rank runs.
func (p *processes) endRank(rank int, sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := processKey{rankProcess, rank}
	if pid, running := p.pids[key]; running {
		p.asked[key] = p.asked[key] || ((sig == syscall.SIGTERM || sig == syscall.SIGKILL) && !contain.Ending(pid))
		_ = contain.SignalGroup(pid, sig)
	}
}

// signal sends sig to a process group as endRank does, without a claim that gorun ended a rank.
func (p *processes) signal(key processKey, sig syscall.Signal) (running bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pid, running := p.pids[key]
	if running {
		_ = contain.SignalGroup(pid, sig)
	}
	return running
}

// pid returns the process of a rank that runs.
func (p *processes) pid(rank int) (pid int, running bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pid, running = p.pids[processKey{rankProcess, rank}]
	return pid, running
}

// ending lists the ranks that have ended and are not reaped.
func (p *processes) ending() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ranks []int
	for key, pid := range p.pids {
		if key.kind == rankProcess && contain.Ending(pid) {
			ranks = append(ranks, key.id)
		}
	}
	return ranks
}

func (p *processes) reapLoop() {
	poll := time.NewTicker(tickTime) // in case a SIGCHLD is missed
	defer poll.Stop()
	for {
		select {
		case <-p.sigchld:
			p.reap()
		case <-poll.C:
			p.reap()
		case <-p.stopped:
			return
		}
	}
}

// reap collects every child that has ended, and orphans of ranks. When it returns, the ranks' ends
// are reported.
func (p *processes) reap() {
	p.reaping.Lock()
	defer p.reaping.Unlock()
	for {
		p.mu.Lock()
		var status syscall.WaitStatus
		var used syscall.Rusage
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, &used)
		if err == syscall.EINTR {
			p.mu.Unlock()
			continue
		}
		if err != nil || pid <= 0 {
			p.mu.Unlock()
			return
		}
		key, known := p.keys[pid]
		if known {
			delete(p.keys, pid)
			delete(p.pids, key)
		}
		asked := p.asked[key]
		p.mu.Unlock()
		if known {
			p.exited(key, status, used, asked)
		}
	}
}

// mayNotGain reports whether dropPrivileges has been called.
func mayNotGain() bool {
	set, _ := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	return set == 1
}

// dropPrivileges keeps this process and its future children from gaining privileges by an exec
// (PR_SET_NO_NEW_PRIVS). The setting belongs to a thread, and any thread may start a rank.
func dropPrivileges() error {
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("set no_new_privs: %w", errno)
	}
	return nil
}
