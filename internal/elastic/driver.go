package elastic

import (
	"fmt"
	"slices"
	"time"

	"github.com/gorun/gorun/internal/prose"
)

// Driver is the state of one elastic job. Events change what is known; settle then does what follows from it.
type Driver struct {
	cfg   Config
	now   time.Duration
	began bool
	acts  []Action
	hosts []*host // in the order in which they were first seen
	named map[string]*host
	procs []*process // see alive; nil: to be made again

	places  int
	epoch   int   // the highest number that was given to a plan
	inForce *Plan // the epoch that was announced last
	next    *Plan // the one that is being formed
	nextAll []*process

	whole    bool // all of the epoch in force have joined
	wholeAt  time.Duration
	ever     bool // an epoch was whole once: there is state that can be lost
	called   bool // its ranks were told to ask for another
	calledAt time.Duration
	wanted   bool          // they were called while nothing was wrong
	broken   bool          // it cannot go on
	brokenAt time.Duration // since when
	idleAt   time.Duration // since when no epoch is whole
	closed   bool          // all of it have parked or are gone
	closedAt time.Duration
	tries    int // epochs in a row that ended for no reason of which we know
	growAt   time.Duration
	held     bool // nothing is added
	waiting  bool // for slots, and it was said
	resets   []time.Duration
	quick    map[any]quick

	finishing bool // a rank has finished
	trouble   bool // and the others do not
	troubleAt time.Duration

	first  *Failure // that which ends the job, if anything does
	ending bool
	ended  bool
	code   int
	cause  string
}

// Failure is what went wrong.
type Failure struct {
	Process // of a host that was lost only its name
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

// New makes a driver. It knows no hosts yet.
func New(cfg Config) (*Driver, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return &Driver{cfg: cfg, named: map[string]*host{}, quick: map[any]quick{}}, nil
}

// Step takes one event at time now, which never goes back, and returns what to do, in order.
func (d *Driver) Step(event Event, now time.Duration) []Action {
	if d.ended {
		return nil
	}
	if !d.began {
		d.began, d.idleAt = true, now
	}
	d.now, d.acts = now, nil
	switch e := event.(type) {
	case Hosts:
		d.believe(e)
	case Ready:
		if p := d.find(e.Process); p != nil && p.life == starting {
			d.become(p, ready)
		}
	case Joined:
		if p := d.find(e.Process); p != nil && p.life == joining && p.epoch == e.Epoch {
			d.become(p, running)
		}
	case Parked:
		if p := d.find(e.Process); p != nil && (p.life == running || p.life == joining) && p.epoch == e.Left {
			d.become(p, parked)
			d.breakUp()
		}
	case Exited:
		d.exited(e)
	case StartFailed:
		if p := d.find(e.Process); p != nil {
			d.gone(p)
			d.failed(p, Failure{Code: max(e.Code, 1), Text: "did not start: " + e.Err.Error(), At: now})
		}
	case HostLost:
		if h := d.host(e.Host); h != nil {
			d.lose(h, e.Err.Error())
		}
	case HostFenced:
		if h := d.host(e.Host); h != nil && h.lost {
			d.fenced(h)
		}
	case UserStop:
		d.end(e.Code, "stopped", e.Now)
	case Hold:
		d.held = e.Hold
	case Tick:
	}
	d.settle()
	return d.acts
}

func (d *Driver) do(a Action) { d.acts = append(d.acts, a) }

func (d *Driver) note(kind NoteKind, host, format string, args ...any) {
	n := Note{Kind: kind, Host: host, Text: fmt.Sprintf(format, args...)}
	if d.inForce != nil {
		n.Epoch = d.inForce.Epoch
	}
	d.do(n)
}

// host is the host of that name, or nil.
func (d *Driver) host(name string) *host { return d.named[name] }

// find is the process of that name, or nil.
func (d *Driver) find(name Process) *process {
	if h := d.host(name.Host); h != nil {
		if p := h.procs[name.Local]; p != nil && p.Born == name.Born {
			return p
		}
	}
	return nil
}

// alive are all processes, in the order of hosts and slots. The list is never changed: who goes through it may start processes
// and forget them meanwhile. With thousands of them it is too dear to be made for every question of every event.
func (d *Driver) alive() []*process {
	if d.procs == nil {
		for _, h := range d.hosts {
			d.procs = append(d.procs, h.alive()...)
		}
	}
	return d.procs
}

func (d *Driver) become(p *process, l life) { p.life, p.at = l, d.now }

// member says whether a process is in the epoch in force.
func (d *Driver) member(p *process) bool { return d.inForce != nil && p.epoch == d.inForce.Epoch }

// working says whether a process may still be at work in the epoch in force.
func (p *process) working() bool {
	return p.life == running || p.life == joining || p.life == stopping && !p.quiet
}

// believe takes the list of hosts.
func (d *Driver) believe(e Hosts) {
	listed := map[string]bool{}
	for _, b := range e.List {
		listed[b.Name] = true
		h := d.host(b.Name)
		if h == nil {
			h = &host{name: b.Name, procs: map[int]*process{}, owed: map[int]bool{}}
			d.hosts, d.named[h.name] = append(d.hosts, h), h
		}
		if h.slots == 0 {
			d.places++
			h.place = d.places
		}
		if h.slots != b.Slots {
			d.note(NoteHosts, h.name, "host %s has %s, before it had %d", h.name, prose.Count(b.Slots, "slot"), h.slots)
		}
		h.slots = b.Slots
	}
	for _, h := range d.hosts {
		switch {
		case listed[h.name] || h.slots == 0:
		case h.name == d.cfg.Own:
			d.note(NoteRefused, h.name, "host %s is not on the list any more, and stays: gorun itself runs there", h.name)
		default:
			d.note(NoteHosts, h.name, "host %s is not on the list any more", h.name)
			h.slots = 0
			if len(h.procs) > 0 {
				h.setAside(d.cfg.Cooldown, d.cfg.Random(), d.now) // it may be one that comes and goes
			}
		}
	}
}

func (d *Driver) exited(e Exited) {
	p := d.find(e.Process)
	if p == nil {
		return
	}
	code, text, at := e.Code, fmt.Sprintf("exited with code %d", e.Code), e.At
	if e.Signal != 0 {
		code, text = 128+e.Signal, fmt.Sprintf("was killed by signal %d", e.Signal)
	}
	if at == 0 {
		at = d.now
	}
	begun := d.member(p) || d.inForce == nil && d.next != nil && p.epoch == d.next.Epoch
	d.gone(p)
	switch {
	case p.life == stopping:
	case code == 0 && begun:
		if !d.finishing {
			d.finishing = true
			d.note(NoteSuccess, p.Host, "rank %d on %s has finished: no further epoch begins", p.rank, p.Host)
		}
	case code == 0:
		d.failed(p, Failure{Code: 1, Text: "ended with 0 before it joined", At: at})
	default:
		d.failed(p, Failure{Code: code, Text: text, Victim: e.Victim, At: at})
	}
	finished := code == 0 && begun && p.life != stopping
	if d.member(p) && !finished {
		d.breakUp()
	}
}

// gone forgets a process.
func (d *Driver) gone(p *process) {
	if h := d.host(p.Host); h.procs[p.Local] == p {
		delete(h.procs, p.Local)
		d.procs = slices.DeleteFunc(slices.Clone(d.alive()), func(q *process) bool { return q == p })
	}
}

// stop ends a process.
func (d *Driver) stop(p *process, now bool) {
	if p.life == stopping && !now {
		return
	}
	d.do(Stop{Process: p.Process, Now: now})
	if p.life == stopping {
		return
	}
	p.quiet = !p.working()
	d.become(p, stopping)
	if d.member(p) && !p.quiet {
		d.breakUp()
	}
}

// breakUp says that the epoch in force cannot go on.
func (d *Driver) breakUp() {
	if d.broken || d.inForce == nil {
		return
	}
	d.broken, d.brokenAt = true, d.now
	if d.whole {
		d.idleAt = d.now
		if d.now-d.wholeAt >= quickTime {
			clear(d.quick)
		}
	}
}

// lose takes a host as lost. What ran there counts as alive until it is fenced.
func (d *Driver) lose(h *host, why string) {
	if h.lost {
		return
	}
	wait := h.setAside(d.cfg.Cooldown, d.cfg.Random(), d.now)
	d.note(NoteLost, h.name, "host %s: %s; it gets no ranks for %v", h.name, why, wait.Round(time.Second))
	if len(h.procs) == 0 {
		return
	}
	h.lost, h.lostAt = true, d.now
	d.do(Fence{Host: h.name})
	for _, p := range h.alive() {
		if d.counts(p) {
			d.blame(Failure{Process: Process{Slot: Slot{Host: h.name}}, Rank: -1, Code: CodeNoRank, Text: why, At: d.now})
		}
		if d.member(p) {
			d.breakUp()
		}
	}
}

// fenced says that nothing is alive on a lost host.
func (d *Driver) fenced(h *host) {
	h.lost = false
	for _, p := range h.alive() {
		d.gone(p)
	}
}

// end stops everything. What comes to an end first is the cause.
func (d *Driver) end(code int, cause string, now bool) {
	if !d.ending {
		d.ending, d.code, d.cause = true, code, cause
		d.note(NoteEnding, "", "the job is ended: %s (code %d)", cause, code)
	}
	for _, p := range d.alive() {
		d.stop(p, now)
	}
}

// endFailed ends the job with the code of what failed first, if anything has.
func (d *Driver) endFailed(cause string) {
	code := CodeNoRank
	if d.first != nil {
		code, cause = d.first.Code, cause+", after "+d.first.String()
	}
	d.end(code, cause, false)
}
