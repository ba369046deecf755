package agent

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/contain"
	"github.com/gorun/gorun/internal/topology"
)

// processes starts and reaps this agent's children. A rank's pid is signalled
// only while the rank has not been reaped, under the lock that reaping takes, so a
// signal can never reach a stranger who got the pid later.
type processes struct {
	reaping sync.Mutex // held until what was reaped is reported
	mu      sync.Mutex
	ranks   map[int]int  // rank by pid, not yet reaped
	pids    map[int]int  // pid by rank, not yet reaped
	asked   map[int]bool // ranks that a signal to end has reached while they ran
	cage    *contain.Cage
	starts  chan startRequest
	leaves  chan chan struct{} // nothing more is to be started; closed when that is done
	stopped chan struct{}
	exited  func(rank int, status syscall.WaitStatus, used syscall.Rusage, asked bool)
	sigchld chan os.Signal
	wg      sync.WaitGroup
}

type startRequest struct {
	rank      int
	path      string
	argv, env []string
	dir       string
	files     []uintptr
	cpus      topology.Set // to be bound to; nil: all that the agent may use
	answer    chan error
}

// newProcesses begins to start processes in the cage; exited is called, one call at a time, for every rank that ends.
func newProcesses(cage *contain.Cage, exited func(rank int, status syscall.WaitStatus, used syscall.Rusage, asked bool)) *processes {
	p := &processes{cage: cage, ranks: map[int]int{}, pids: map[int]int{}, asked: map[int]bool{}, starts: make(chan startRequest), leaves: make(chan chan struct{}),
		stopped: make(chan struct{}), exited: exited, sigchld: make(chan os.Signal, 1)}
	signal.Notify(p.sigchld, syscall.SIGCHLD)
	p.wg.Go(p.startLoop)
	return p
}

// beginReaping begins to collect all children that end, ranks or not. From then on nobody else can wait for a child of his own.
func (p *processes) beginReaping() { p.wg.Go(p.reapLoop) }

// close ends the reaping. Children that still run lose their parent's
// protection: their death signal fires.
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
	for {
		select {
		case r := <-p.starts:
			if entered != nil {
				r.answer <- entered
				continue
			}
			r.answer <- p.fork(r)
		case done := <-p.leaves:
			_ = p.cage.Leave() // or it dies with the ranks
			close(done)
		case <-p.stopped:
			return
		}
	}
}

func (p *processes) fork(r startRequest) error {
	// A process inherits what this thread may run on. All ranks of a host are bound or none is, and
	// the thread does nothing else, so it need not be set back.
	if r.cpus != nil {
		if err := topology.SetAffinity(r.cpus); err != nil {
			return fmt.Errorf("bind it to cpus %s: %v", r.cpus, err) // not wrapped: the program is not at fault
		}
	}
	p.mu.Lock() // reaping must not see the pid before the table does
	defer p.mu.Unlock()
	sys := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	p.cage.Attach(sys)
	pid, err := syscall.ForkExec(r.path, r.argv, &syscall.ProcAttr{Dir: r.dir, Env: r.env, Files: r.files, Sys: sys})
	if err != nil {
		return err
	}
	p.ranks[pid], p.pids[r.rank] = r.rank, pid
	return nil
}

// raiseScore makes processes that are started until restore is called those that die when memory runs out, rather than
// the agent. It is best effort. The agent has the score itself meanwhile: a rank that got it after its start
// may have children by then that have it not.
func raiseScore() (restore func()) {
	const file = "/proc/self/oom_score_adj"
	text, _ := os.ReadFile(file)
	if own, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || own >= contain.Score {
		return func() {}
	}
	_ = os.WriteFile(file, []byte(strconv.Itoa(contain.Score)), 0)
	return func() { _ = os.WriteFile(file, text, 0) }
}

// leave says that nothing more is to be started. The ranks may be killed then.
func (p *processes) leave() {
	done := make(chan struct{})
	p.leaves <- done
	<-done
}

// start starts a rank in its own session and process group.
func (p *processes) start(r startRequest) error {
	r.answer = make(chan error, 1)
	p.starts <- r
	return <-r.answer
}

// signal sends sig to the rank's process group while the rank runs.
func (p *processes) signal(rank int, sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pid, running := p.pids[rank]; running {
		p.asked[rank] = p.asked[rank] || ((sig == syscall.SIGTERM || sig == syscall.SIGKILL) && !contain.Ending(pid))
		_ = syscall.Kill(-pid, sig)
	}
}

// ending are the ranks that end, and are yet to be reaped.
func (p *processes) ending() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ranks []int
	for rank, pid := range p.pids {
		if contain.Ending(pid) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

func (p *processes) reapLoop() {
	look := time.NewTicker(tickTime) // should a SIGCHLD ever be missed
	defer look.Stop()
	for {
		select {
		case <-p.sigchld:
			p.reap()
		case <-look.C:
			p.reap()
		case <-p.stopped:
			return
		}
	}
}

// reap collects every child that has ended: ranks, and orphans of ranks that
// were handed to us. When it returns, the ranks' ends are reported.
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
		rank, isRank := p.ranks[pid]
		if isRank {
			delete(p.ranks, pid)
			delete(p.pids, rank)
		}
		asked := p.asked[rank]
		p.mu.Unlock()
		if isRank {
			p.exited(rank, status, used, asked)
		}
	}
}

// hasEnded reports whether our parent has. Our death signal comes when the thread that started us ends, a little before.
func hasEnded(parent int) bool {
	for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if os.Getppid() != parent || contain.Ending(parent) {
			return true
		}
	}
	return false
}

// becomeSubreaper makes orphans below this process its children.
func becomeSubreaper() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}
