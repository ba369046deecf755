package elastic

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
)

// Driver is the state of one elastic job. Events change what is known; settle then decides the
// actions.
type Driver struct {
	cfg   Config
	now   time.Duration
	acts  []Action
	hosts []*host // hosts in the order of first appearance
	named map[string]*host
	procs []*process // cache of alive; nil after a change

	phase     Phase
	since     time.Duration // start of the phase
	turnedAt  time.Duration // time at which an epoch last became whole or ceased to be
	lastWhole int           // last whole epoch; 0 means none, so there is no state to lose
	planned   bool          // whether the epoch in force ends for growth or removal instead of a failure
	aborted   bool          // whether its members were told not to wait for each other

	arrivals int
	epoch    int   // the highest epoch number given to a plan
	inForce  *Plan // the epoch announced last
	next     *Plan // the epoch being formed
	nextAll  []*process

	tries   int           // consecutive epochs that ended without a known reason
	shaky   int           // the same since an epoch lasted for quickTime, consecutive or not
	shakyAt time.Duration // end of the first of these
	lasted  time.Duration // how long all members of the last epoch worked; 0 while they do, or if they never did
	why     string        // how a member ended the epoch in force, or ""
	growAt  time.Duration
	unaware bool // whether ranks seem unaware of epochs: the job neither grows nor survives a failure
	// when ranks were last awaited because those of half of the hosts had asked for no epoch
	strayedAt time.Duration
	waiting   bool // whether the user was told that the job waits for slots
	resets    []time.Duration
	quick     map[Slot]quick

	first     *Failure // cause of the job's end, if it is a failure
	victims   []victim // those of the epoch in force
	explained bool     // whether a failure but those of victims is known since it was announced
	end       End      // end of the job, from phase Ending on
}

// Failure is the failure of a process or the loss of a host.
type Failure struct {
	Process // only Host is set for a lost host
	Rank    int
	Code    int
	Victim  bool
	Text    string
	At      time.Duration
}

func (f Failure) String() string {
	if f.Rank < 0 {
		return fmt.Sprintf("the loss of host %s: %s", f.Host, f.Text)
	}
	return fmt.Sprintf("rank %d on %s %s", f.Rank, f.Host, f.Text)
}

// New returns a driver without hosts, or an error if cfg is invalid.
func New(cfg Config) (*Driver, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return &Driver{cfg: cfg, named: map[string]*host{}, quick: map[Slot]quick{}}, nil
}

// Step handles one event at time now, which must not decrease, and returns the actions in order.
func (d *Driver) Step(event Event, now time.Duration) []Action {
	if d.phase == Ended {
		return nil
	}
	d.now = now
	d.acts = nil
	switch e := event.(type) {
	case Hosts:
		d.setHosts(e)
	case Spawned:
		if p := d.find(e.Process); p != nil && p.life == starting {
			d.spawned(p)
		}
	case Ready:
		d.asks(e.Process)
		if p := d.find(e.Process); p != nil && p.life == starting {
			d.become(p, ready)
		}
	case Joined:
		if p := d.find(e.Process); p != nil && p.life == joining && p.epoch == e.Epoch {
			d.become(p, running)
		}
	case Parked:
		d.asks(e.Process)
		if p := d.find(e.Process); p != nil && (p.life == running || p.life == joining) && p.epoch == e.Left {
			d.become(p, parked)
			d.blameFirst(p, "asked for another")
			d.breakUp()
		}
	case RankLost:
		if p := d.find(e.Process); p != nil && d.member(p) {
			d.blameFirst(p, fmt.Sprintf("said that it had lost rank %d", e.Rank))
		}
	case Aborted:
		if p := d.find(e.Process); p != nil && p.since > 0 { // a newcomer ends nothing
			cause := fmt.Sprintf("rank %d on %s has ended it: %s", p.rank, p.Host, e.Cause)
			d.stopAll(End{Code: 1, Cause: cause}, false)
		}
	case Exited:
		d.exited(e)
	case StartFailed:
		if p := d.find(e.Process); p != nil {
			d.forget(p)
			d.failed(p, Failure{Code: max(e.Code, 1), Text: "did not start: " + e.Err.Error(), At: now})
			if e.Code != CodeNoRank {
				d.failUnaware(e.Code)
			}
		}
	case HostLost:
		if h := d.host(e.Host); h != nil {
			d.hostLost(h, e.Err.Error())
		}
	case HostFenced:
		if h := d.host(e.Host); h != nil && h.lost {
			d.hostFenced(h)
		}
	case Slow:
		d.replace(e)
	case UserStop:
		d.stopAll(End{Code: e.Code, Cause: "stopped"}, e.Now)
	case Tick:
	}
	d.settle()
	return d.acts
}

func (d *Driver) do(a Action) { d.acts = append(d.acts, a) }

func (d *Driver) note(kind NoteKind, host, format string, args ...any) {
	n := Note{Kind: kind, Host: host, Text: fmt.Sprintf(format, args...)}
	switch kind {
	case NoteHosts, NoteEpoch:
		n.Routine = d.lastWhole == 0
	case NoteEnding, NoteSuccess, NoteUnaware:
		n.Routine = true
	}
	if d.inForce != nil {
		n.Epoch = d.inForce.Epoch
	}
	d.do(n)
}

// blameFirst notes what a member does that ends the epoch in force, if it was the first.
func (d *Driver) blameFirst(p *process, what string) {
	if d.underway() && !d.planned && d.why == "" {
		d.why = fmt.Sprintf("rank %d on %s %s", p.rank, p.Host, what)
	}
}

// host returns the host with a name, or nil.
func (d *Driver) host(name string) *host { return d.named[name] }

func (d *Driver) find(name Process) *process {
	if h := d.host(name.Host); h != nil {
		if p := h.procs[name.Local]; p != nil && p.Born == name.Born {
			return p
		}
	}
	return nil
}

// alive returns all processes in the order of hosts and slots. The list is immutable, so callers
// may start and forget processes while they iterate. It is cached, because a large job asks for it
// many times per event.
func (d *Driver) alive() []*process {
	if d.procs == nil {
		for _, h := range d.hosts {
			d.procs = append(d.procs, h.alive()...)
		}
	}
	return d.procs
}

func (d *Driver) become(p *process, l life) {
	p.life = l
	p.at = d.now
}

// member reports whether a process is in the epoch in force.
func (d *Driver) member(p *process) bool { return d.inForce != nil && p.epoch == d.inForce.Epoch }

// working reports whether a process may still be working in the epoch in force.
func (p *process) working() bool {
	l := p.life
	if l == stopping {
		l = p.before
	}
	return l == running || l == joining
}

// setHosts applies a list of hosts.
func (d *Driver) setHosts(e Hosts) {
	listed := map[string]bool{}
	for _, b := range e.List {
		listed[b.Name] = true
		h := d.host(b.Name)
		if h == nil {
			h = &host{name: b.Name, procs: map[int]*process{}, owed: map[int]bool{}}
			d.hosts = append(d.hosts, h)
			d.named[h.name] = h
		}
		if h.slots == 0 {
			d.arrivals++
			h.arrival = d.arrivals
		}
		if h.slots != b.Slots {
			d.note(NoteHosts, h.name, "host %s has %s, before it had %d", h.name, prose.Count(b.Slots, "slot"), h.slots)
			h.found = b.Slots > h.slots
		}
		h.slots = b.Slots
	}
	for _, h := range d.hosts {
		switch {
		case listed[h.name] || h.slots == 0:
		case h.name == d.cfg.Own:
			d.note(NoteRefused, h.name, "host %s is not on the list any more, and stays: gorun itself runs there",
				h.name)
		default:
			d.note(NoteHosts, h.name, "host %s is not on the list any more", h.name)
			h.slots = 0
			if len(h.procs) > 0 && !d.cfg.Horovodrun {
				h.setAside(d.cfg.Cooldown, d.cfg.Random(), d.now) // the host may leave and join repeatedly
			}
		}
	}
}

func (d *Driver) exited(e Exited) {
	p := d.find(e.Process)
	if p == nil {
		return
	}
	code := e.Code
	text := fmt.Sprintf("exited with code %d", e.Code)
	at := e.At
	if e.Signal != 0 {
		code = wire.SignalCode(syscall.Signal(e.Signal))
		text = fmt.Sprintf("was killed by signal %d", e.Signal)
	}
	if e.Text != "" {
		text = e.Text
	}
	if at == 0 {
		at = d.now
	}
	awaited := p.asked && (p.life == ready || p.life == joining)
	begun := !awaited && (d.member(p) || d.inForce == nil && d.next != nil && p.epoch == d.next.Epoch)
	d.forget(p)
	switch {
	case p.life == stopping:
	case code == 0 && begun:
		if !d.phase.final() {
			d.enter(Finishing)
			d.note(NoteSuccess, p.Host, "rank %d on %s has finished: no further epoch begins", p.rank, p.Host)
		}
	case code == 0:
		d.failed(p, Failure{Code: 1, Text: "ended with 0 before it joined", At: at})
	default:
		d.failed(p, Failure{
			Code:   code,
			Text:   text,
			Victim: e.Victim,
			At:     at,
		})
		d.failUnaware(code)
	}
	finished := code == 0 && begun && p.life != stopping
	if d.member(p) && !finished {
		d.breakUp()
	}
}

func (d *Driver) forget(p *process) {
	if h := d.host(p.Host); h.procs[p.Local] == p {
		delete(h.procs, p.Local)
		d.procs = slices.DeleteFunc(slices.Clone(d.alive()), func(q *process) bool { return q == p })
	}
}

// stop orders the end of a process.
func (d *Driver) stop(p *process, now bool) {
	if p.life == stopping && !now {
		return
	}
	d.do(Stop{Process: p.Process, Now: now})
	p.now = p.now || now
	if p.life == stopping {
		return
	}
	p.before = p.life
	d.become(p, stopping)
	if d.member(p) && p.working() {
		d.breakUp()
	}
}

// breakUp records that the current epoch has failed.
func (d *Driver) breakUp() {
	was := d.phase
	switch was {
	case Working, Draining:
		d.lasted = d.now - d.turnedAt
		d.turnedAt = d.now
	case Joining:
	default:
		return
	}
	d.enter(Broken)
	if was == Draining {
		d.enter(Parking)
	}
}

// hostLost records the loss of a host. Its processes count as alive until the host is fenced.
func (d *Driver) hostLost(h *host, why string) {
	if h.lost {
		return
	}
	setAside := h.setAside
	if d.cfg.Horovodrun {
		setAside = h.exclude
	}
	wait := setAside(d.cfg.Cooldown, d.cfg.Random(), d.now)
	d.note(NoteLost, h.name, "host %s: %s; it gets no ranks%s", h.name, why, forTime(wait))
	if len(h.procs) == 0 {
		return
	}
	h.lost = true
	h.lostAt = d.now
	d.do(Fence{Host: h.name})
	for _, p := range h.alive() {
		if d.counts(p) {
			d.blame(Failure{
				Process: Process{Slot: Slot{Host: h.name}},
				Rank:    -1,
				Code:    CodeNoRank,
				Text:    why,
				At:      d.now,
			})
		}
		if d.member(p) {
			d.breakUp()
		}
	}
}

// forTime is how long a host is set aside, for a note.
func forTime(wait time.Duration) string {
	if wait >= forever {
		return " any more"
	}
	return fmt.Sprintf(" for %v", wait.Round(time.Second))
}

// hostFenced records that no process is alive on a lost host.
func (d *Driver) hostFenced(h *host) {
	h.lost = false
	for _, p := range h.alive() {
		d.forget(p)
	}
}

// stopAll ends the job. The first call determines the end.
func (d *Driver) stopAll(end End, now bool) {
	if d.phase != Ending {
		d.enter(Ending)
		d.end = end
		if end.Code == 0 {
			d.note(NoteEnding, "", "the job is over: its ranks have finished")
		} else {
			d.note(NoteEnding, "", "the job is ended: %s (code %d)", end.Cause, end.Code)
		}
	}
	for _, p := range d.alive() {
		d.stop(p, now)
	}
}

// stopFailed ends the job with the code of the first failure, if there was one. hint is what the
// user can do about the cause, or "".
func (d *Driver) stopFailed(cause, hint string) {
	code := CodeNoRank
	if d.first != nil {
		code = d.first.Code
		cause += ", after " + d.first.String()
	}
	d.stopAll(End{Code: code, Cause: cause, Hint: hint}, false)
}
