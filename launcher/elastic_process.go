package launcher

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/elastic"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/launcher/connect"
	"github.com/gorun/gorun/launcher/core"
	"github.com/gorun/gorun/launcher/plan"
	"github.com/gorun/gorun/launcher/route"
	"github.com/gorun/gorun/launcher/session"
)

const (
	// elasticLease is the agents' lease, and elasticParting the time that their processes then get
	// to end. An agent that watches its connection notices a dead network 6.1 s after the first
	// heartbeat that is not acknowledged, 0.5 s after the last that is. So nothing is alive on a
	// lost host elasticFence after its loss, nor as long after its last heartbeats if its network
	// is dead.
	elasticLease   = 6500 * time.Millisecond
	elasticParting = 1500 * time.Millisecond
	elasticFence   = 9 * time.Second
	// startedTime bounds the start of a process that is no longer needed; after that it is
	// abandoned.
	startedTime = time.Second
	// elasticSilence is how long a connected agent may be silent.
	elasticSilence = 10 * time.Second
)

// elasticProcess is one process of an elastic job, and its agent.
type elasticProcess struct {
	name elastic.Process
	// born is the member at the start; the agent and the streams keep its rank.
	born    elastic.Member
	serial  int
	host    *elasticHost
	cancel  context.CancelCauseFunc // abandons its start
	session *session.Session        // nil before the session opens and after it ends
	agent   *session.Session        // session, kept until its end has been handled
	ran     bool                    // whether its agent has ever started it
	local   bool
	exited  bool
	failing error // why its agent announced its own end, or nil
	lostBy  int   // epoch in which it reported the loss of another rank

	conn   atomic.Pointer[connect.Conn] // nil: none yet, or none any more
	place  atomic.Pointer[place]        // current one; set before others see the process
	prefix atomic.Pointer[func(rank, fd int, at time.Time) []byte]
}

var errStopped = errors.New("its start was abandoned")

type (
	processUp struct { // the agent has started the process
		process *elasticProcess
		session *session.Session
		local   bool
	}
	processDown struct { // the process was not started, or its agent's session has ended
		process *elasticProcess
		err     error // nil: a regular end
	}
)

// start starts a process in a goroutine of its own.
func (j *elasticJob) start(act elastic.Start) {
	h := j.host(act.Member.Host)
	ctx, cancel := context.WithCancelCause(j.life)
	p := &elasticProcess{
		name:   act.Member.Process,
		born:   act.Member,
		host:   h,
		cancel: cancel,
	}
	p.place.Store(&place{0, act.Member.Rank})
	j.procs[p.name] = p
	j.mu.Lock()
	p.serial = len(j.serials)
	j.serials = append(j.serials, p)
	j.mu.Unlock()
	j.setPrefix(p)
	at := h.host
	losses := h.losses
	j.wg.Go(func() {
		defer cancel(nil)
		j.live(ctx, p, at, losses)
	})
}

// place is the epoch in which a process is, 0 before its first, and its rank.
type place struct{ epoch, rank int }

// rank returns the process's current rank.
func (p *elasticProcess) rank() int { return p.place.Load().rank }

// contact returns the known addresses of the process's host.
func (p *elasticProcess) contact() route.Contact { return contactOf(p.session) }

// describe returns the job message for the process's agent.
func (j *elasticJob) describe(h hostfile.Host, conn Host, m elastic.Member) wire.Job {
	w := j.opts.wire(j.id, h, conn)
	w.Epoch = m.Born
	w.Key = make([]byte, 32)
	w.Size = m.Size
	w.Hosts = 1 // the epoch message carries the key
	w.Ranks = []Rank{rankOf(m)}
	w.Elastic = &wire.Elastic{
		Slot:      m.Local,
		Slots:     max(h.Slots, m.Local+1),
		LocalSize: m.LocalSize,
		Node:      m.Node,
		Nodes:     m.Nodes,
		Lease:     elasticLease,
		Parting:   elasticParting,
		Timeout:   j.settings.Timeout,
	}
	if j.settings.Together {
		w.Elastic.MaxRestarts = j.settings.ResetLimit
	}
	_, local := conn.(Local)
	if local { // a local agent ends with the launcher and needs no short lease
		w.Elastic.Lease = core.HungTime
	}
	w.Programs = []Program{plan.RunOn(j.opts.Programs[0], local)}
	return w
}

// live runs a process: connect, stage, prepare, start, and read its agent's frames until the
// session ends.
func (j *elasticJob) live(ctx context.Context, p *elasticProcess, at hostfile.Host, losses int) {
	conn, err := j.connect(ctx, p.host, at)
	if err != nil {
		j.post(processDown{p, err})
		return
	}
	defer p.host.pool.Release(conn)
	p.conn.Store(conn)
	if prepare := j.settings.Prepare; prepare != nil {
		err = p.host.prepare(ctx, losses, func(ctx context.Context) error { return prepare(ctx, at) })
	}
	if err != nil {
		j.post(processDown{p, err})
		return
	}
	s, err := j.launch(ctx, p, at, conn.Host)
	if err != nil {
		j.post(processDown{p, err})
		return
	}
	_, local := conn.Host.(Local)
	j.post(processUp{p, s, local})
	stop := context.AfterFunc(j.life, s.HangUp) // agents that take too long to end
	defer stop()
	err = j.opts.Sessions.During(s, j.read)
	s.Close()
	j.post(processDown{p, err})
}

// launch makes an agent start the process, or prepare to.
func (j *elasticJob) launch(ctx context.Context, p *elasticProcess, at hostfile.Host, conn Host) (s *session.Session,
	err error) {
	described := j.describe(at, conn, p.born)
	if s, err = j.stager.Agent(ctx, conn, session.Identity{
		Index: p.serial,
		Host:  &PlannedHost{Host: at, Ranks: described.Ranks},
		Now: func() (epoch, rank int) {
			at := p.place.Load()
			return at.epoch, at.rank
		},
		Spare: func() bool { return p.place.Load().epoch == 0 },
	}); err != nil {
		return nil, err
	}
	if err := j.work.CopyTo(ctx, p.host.index, s); err != nil {
		s.Close()
		return nil, err
	}
	j.work.Place(p.host.index, described.Programs)
	err = s.Prepare(ctx, described, session.Helpers{GPU: j.opts.GPUProgram}, j.opts.Trace)
	chosen, wrong := j.addressesAlone(at.Name, contactOf(s))
	if err = cmp.Or(err, wrong); err != nil {
		s.Close()
		return nil, err
	}
	if !j.settings.Together {
		s.Out.SendMessage(wire.TypeStart, wire.Start{Addrs: route.AddrTexts(chosen)})
	}
	return s, nil
}

// stopProcess ends a process, whether or not it runs yet.
func (j *elasticJob) stopProcess(act elastic.Stop) {
	p := j.procs[act.Process]
	if p == nil {
		return
	}
	j.abort(p.name.Host, p, "it is being ended: its host or slot is not the job's any more, or it did not answer")
	if p.session == nil { // a session that opens in this time is ended like others
		time.AfterFunc(startedTime, func() { p.cancel(errStopped) })
		return
	}
	j.requestStop(p)
}

// requestStop ends a process, without grace if any stop request asked for that.
func (j *elasticJob) requestStop(p *elasticProcess) {
	grace := j.opts.Grace
	if _, now := j.driver.Stopping(p.name); now {
		grace = 0
	}
	p.session.Out.SendMessage(wire.TypeStop, wire.Stop{Grace: grace})
}

func (j *elasticJob) up(e processUp) {
	p := e.process
	p.agent = e.session
	p.session = e.session
	p.ran = true
	p.local = e.local
	for _, place := range p.session.Ready.Places {
		if text := j.gpus.Add(p.name.Host, p.born.Local, place.GPUs); text != "" {
			j.opts.Note(text)
		}
	}
	if j.fenced(p) {
		p.session.Cancel()
	} else if stopping, _ := j.driver.Stopping(p.name); stopping {
		j.requestStop(p)
	} else {
		j.step(elastic.Spawned{Process: p.name})
	}
}

// fenced reports whether the process's host was lost, so that its messages are ignored.
func (j *elasticJob) fenced(p *elasticProcess) bool { return j.procs[p.name] != p }

// down handles a process that did not start, or whose agent has ended.
func (j *elasticJob) down(e processDown) {
	p := e.process
	started := p.session != nil
	p.session = nil
	defer func() { // the job remembers the process, and not its buffers
		p.agent = nil
		p.conn.Store(nil)
	}()
	if j.fenced(p) {
		return
	}
	defer func() { delete(j.procs, p.name) }()
	stopping, _ := j.driver.Stopping(p.name)
	var refused *RefusedError
	var ended *session.AgentEndedError
	switch {
	case p.exited:
	case stopping && !started:
		j.step(elastic.Exited{Process: p.name})
	case errors.As(e.err, &refused):
		if !j.permanent(p, e.err) {
			j.step(elastic.StartFailed{Process: p.name, Code: refused.ExitCode(), Err: e.err})
		}
		j.step(elastic.Exited{Process: p.name})
	case started && errors.As(e.err, &ended) && ended.Swept:
		j.endedWithAgent(p, cmp.Or(p.failing, error(ended)))
	case !started && j.others(p):
		j.step(elastic.StartFailed{Process: p.name, Code: elastic.CodeNoRank, Err: e.err})
	default:
		err := e.err
		if err == nil {
			err = errors.New("the agent ended without a word about its process")
		}
		j.hostLost(p.name.Host, err)
	}
}

// endedWithAgent handles the end of a process whose agent has ended. The host is not lost: the
// guard has ended everything that belonged to the process.
func (j *elasticJob) endedWithAgent(p *elasticProcess, ended error) {
	if m, member := j.memberOf(p); member {
		j.epoch.fences.RankEnded(m.Rank)
	}
	if stopping, _ := j.driver.Stopping(p.name); !stopping {
		j.abort(p.name.Host, p, ended.Error())
	}
	j.step(elastic.Exited{Process: p.name, Code: elastic.CodeNoRank, Text: "has ended with its agent: " +
		ended.Error()})
}

// others reports whether the failed start of a process is not its host's fault, because other
// processes run there or start over another connection. They will show whether the host is lost.
func (j *elasticJob) others(p *elasticProcess) bool {
	for _, other := range j.procs {
		if other == p || other.host != p.host || other.exited {
			continue
		}
		if c := other.conn.Load(); other.session != nil || c != nil && c != p.conn.Load() {
			return true
		}
	}
	return false
}

// stopCause returns why the job's processes are being stopped, or nil.
func (j *elasticJob) stopCause() *core.StopCause {
	switch {
	case j.end.Stopped != NotStopped:
		return &core.StopCause{Reason: j.end.Stopped, Rank: -1}
	case j.end.Cause != nil:
		return &core.StopCause{Rank: j.end.Cause.Rank, Host: j.end.Cause.Host}
	}
	return nil
}

func (j *elasticJob) exit(p *elasticProcess, e Exit) {
	p.exited = true
	j.limitEnded(p.host)
	m, member := j.memberOf(p)
	e.Rank = p.rank()
	if e.Stopped {
		e.Cause = j.stopCause()
	}
	j.end.Exits = append(j.end.Exits, e)
	j.notify(Exited{p.name.Host, e})
	j.opts.Trace("rank %d on %s %s", e.Rank, p.name.Host, e.Describe())
	if member {
		j.epoch.fences.RankEnded(m.Rank)
	}
	if member && !e.IsFailure() {
		j.abortStuck()
	}
	// A rank is a victim of its epoch only, and of an abort that came before its end.
	victim := member && (e.Aborted && j.epoch.aborted || p.lostBy == j.epoch.plan.Epoch)
	if stopping, _ := j.driver.Stopping(p.name); e.IsFailure() && !stopping {
		j.abort(p.name.Host, p, e.Describe())
		if j.driver.Unaware() { // the driver ends the job; the rank's last lines are known when all output is written
			j.failed = p
			j.end.Cause = &Failure{
				Rank: e.Rank,
				Host: p.name.Host,
				Exit: e,
				At:   e.At,
			}
		}
	}
	if e.Failed != "" {
		why := &RefusedError{Code: e.Code, What: e.Failed, Remedy: e.Remedy}
		if e.Code == CodeLaunch || !j.permanent(p, why) {
			j.step(elastic.StartFailed{Process: p.name, Code: e.Code, Err: why})
			return
		}
	}
	j.step(elastic.Exited{
		Process: p.name,
		Code:    e.Code,
		Signal:  e.Signal,
		Victim:  victim,
		At:      e.At,
	})
}

// maxEnded bounds the processes of a host that have ended and whose agents have not, beyond two for
// each slot. An agent stays while it sweeps up, and until its output is taken.
const maxEnded = 8

// limitEnded hangs up on the agents of a host whose processes ended first, if there are too many.
// Another process starts when one has ended, and a hostile agent would stay as long as the job.
func (j *elasticJob) limitEnded(h *elasticHost) {
	var ended []*elasticProcess
	slots := h.host.Slots // it may have had more
	for _, p := range j.procs {
		if p.host != h {
			continue
		}
		slots = max(slots, p.name.Local+1)
		if p.exited && p.session != nil {
			ended = append(ended, p)
		}
	}
	if most := 2*slots + maxEnded; len(ended) > most {
		slices.SortFunc(ended, func(a, b *elasticProcess) int { return cmp.Compare(a.serial, b.serial) })
		for _, p := range ended[:len(ended)-most] {
			p.session.HangUp()
		}
	}
}
