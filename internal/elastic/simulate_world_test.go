package elastic

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/simulate"
)

// world is a made-up job: hosts that join, leave, crash and are cut off, their processes, a polled
// list of hosts, and a driver.
type world struct {
	simulate.Clock
	dice *rand.Rand
	d    *Driver
	cfg  Config

	hosts   []*simHost
	seen    Debouncer
	workEnd time.Duration // when the training is done
	calm    time.Duration // when faults stop
	crashes bool          // processes fail by themselves
	doomed  bool          // each fails in the same way
	codes   map[int]bool  // exit codes of processes so far

	plan      *Plan // announced last
	announced int
	highest   int // epoch that something was started for
	joined    map[Process]bool
	lastGood  time.Duration // when an epoch last worked
	ended     bool
	end       End
	endAt     time.Duration
	storm     bool          // of signals, and processes are ready soon
	often     time.Duration // mean time between faults, about
}

// simHost is a host and its processes.
type simHost struct {
	name     string
	slots    int
	listed   bool
	up       bool
	cut      bool // the launcher does not reach it
	reported bool // as lost
	link     int  // the connection's number; messages of earlier ones are dropped
	procs    []*simProc
	changes  []time.Duration // when it joined or left the plan
}

type simProc struct {
	Process
	host  *simHost
	link  int
	alive bool
	deaf  bool // to Stop
	phase life
	epoch int
	state bool
}

const latency = 20 * time.Millisecond // to and from a host

func (w *world) oneIn(n int) bool { return w.dice.IntN(n) == 0 }
func (w *world) upTo(d time.Duration) time.Duration {
	return time.Duration(w.dice.Int64N(int64(d) + 1))
}

func emptyWorld(seed uint64, tell bool) *world {
	return &world{
		Clock:  simulate.Clock{Tell: tell},
		dice:   rand.New(rand.NewPCG(seed, 9)),
		codes:  map[int]bool{},
		joined: map[Process]bool{},
	}
}

// begin creates the driver, and polls for hosts from now on.
func (w *world) begin(cfg Config) {
	d, err := New(cfg)
	if err != nil {
		w.Broken("%v", err)
	}
	w.cfg = d.cfg
	w.d = d
	w.poll()
}

func newWorld(seed uint64, tell bool) *world {
	w := emptyWorld(seed, tell)
	slots := 0
	for i := range 1 + w.dice.IntN(6) {
		h := &simHost{
			name:   fmt.Sprint("h", i),
			slots:  1 + w.dice.IntN(4),
			up:     true,
			listed: i == 0 || !w.oneIn(4),
		}
		if h.listed {
			slots += h.slots
		}
		w.hosts = append(w.hosts, h)
	}
	w.often = []time.Duration{time.Minute, 2 * time.Minute, 10 * time.Minute}[w.dice.IntN(3)]
	w.crashes = !w.oneIn(4)
	w.doomed = w.oneIn(40)
	w.cfg = Config{
		NP:          1 + w.dice.IntN(slots),
		StartOver:   w.oneIn(2),
		Together:    w.oneIn(4),
		OneIsEnough: w.oneIn(2),
		Random:      w.dice.Float64,
	}
	w.cfg.Min = 1 + w.dice.IntN(w.cfg.NP)
	if w.oneIn(2) {
		w.cfg.Max = w.cfg.NP + w.dice.IntN(5)
	}
	if w.oneIn(8) {
		w.cfg.ResetLimit = 1 + w.dice.IntN(20)
		w.cfg.ResetWindow = []time.Duration{0, 10 * time.Minute}[w.dice.IntN(2)]
	}
	if w.oneIn(4) {
		w.cfg.Own = "h0"
	}
	if !w.cfg.Together && w.oneIn(4) {
		w.cfg.Horovodrun = true
		w.cfg.Own = ""
		if w.oneIn(2) {
			w.cfg.Cooldown = [2]time.Duration{time.Second, time.Minute}
		}
	}
	if !w.cfg.Together && !w.cfg.Horovodrun && w.oneIn(2) {
		w.cfg.Spares = 1 + w.dice.IntN(3)
		w.cfg.Max = max(w.cfg.Max, w.cfg.NP)
	}
	w.calm = 10*time.Minute + w.upTo(2*time.Hour)
	w.workEnd = w.calm + w.upTo(time.Hour)
	w.begin(w.cfg)
	w.harm()
	if w.oneIn(20) {
		w.After(w.upTo(w.workEnd), func() { w.codes[130] = true; w.step(UserStop{Code: 130, Now: w.oneIn(2)}) })
	}
	return w
}

// poll asks the discovery script, each second.
func (w *world) poll() {
	var list []hostfile.Host
	for _, h := range w.hosts {
		if h.listed {
			list = append(list, hostfile.Host{Name: h.name, Slots: h.slots})
		}
	}
	var err error
	if w.Now > 0 && w.Now < w.calm && w.oneIn(50) {
		err = errors.New("the script failed")
		list = nil
	} else if w.Now > 0 && w.Now < w.calm && w.oneIn(50) {
		list = nil
	}
	polled := w.seen.Polled(list, err, w.Now)
	if polled.Changed {
		w.step(Hosts{polled.Hosts})
	} else {
		w.step(Tick{})
	}
	w.After(min(polled.Next-w.Now, time.Second), func() { w.poll() })
}

// signal returns a signal that ends a process.
func (w *world) signal() int { return []int{6, 9, 11, 15}[w.dice.IntN(4)] }

// newStorm is a job of 6 ranks on 3 hosts, of which each 5 s one is killed by some signal, for 10
// min. Nothing else fails.
func newStorm(seed uint64, tell bool) *world {
	w := emptyWorld(seed, tell)
	for i := range 3 {
		w.hosts = append(w.hosts, &simHost{
			name:   fmt.Sprint("h", i),
			slots:  2,
			up:     true,
			listed: true,
		})
	}
	w.calm = 10 * time.Minute
	w.workEnd = 15 * time.Minute
	w.storm = true
	w.begin(Config{
		NP:        6,
		Min:       1,
		StartOver: true,
		Cooldown:  [2]time.Duration{time.Second, 2 * time.Second},
		Random:    w.dice.Float64,
	})
	var strike func()
	strike = func() {
		h := w.hosts[w.dice.IntN(len(w.hosts))]
		if len(h.procs) > 0 {
			p := h.procs[w.dice.IntN(len(h.procs))]
			if signal := w.signal(); signal == 6 || signal == 11 { // as Go and many others end by them
				w.die(p, 2, 0)
			} else {
				w.die(p, 0, signal)
			}
		}
		if w.Now < w.calm {
			w.After(5*time.Second, strike)
		}
	}
	w.After(20*time.Second, strike)
	return w
}

// harm schedules faults of hosts and processes until the world is calm.
func (w *world) harm() {
	wait := w.upTo(w.often)
	if w.oneIn(6) {
		wait = w.upTo(3 * time.Second) // while the job still handles the last fault
	}
	w.After(wait, func() {
		if w.Now >= w.calm || w.ended {
			for _, h := range w.hosts {
				h.listed = true
				w.restore(h)
			}
			return
		}
		h := w.hosts[w.dice.IntN(len(w.hosts))]
		switch w.dice.IntN(6) {
		case 0:
			h.listed = !h.listed
			w.Note("world: %s listed: %v", h.name, h.listed)
		case 1:
			h.slots = 1 + w.dice.IntN(4)
			w.Note("world: %s has %d slots", h.name, h.slots)
		case 2:
			w.crashHost(h)
		case 3:
			w.cutOff(h)
		default:
			if len(h.procs) > 0 && w.crashes {
				p := h.procs[w.dice.IntN(len(h.procs))]
				if w.oneIn(4) {
					w.step(Slow{Process: p.Process, Text: "is slow"})
					break
				}
				w.die(p, 1+w.dice.IntN(127), w.signal()*w.dice.IntN(2))
			}
		}
		w.harm()
	})
}

func (w *world) restore(h *simHost) {
	if !h.up || h.cut {
		w.report(h, "back after a restart")
		w.Note("world: %s is back", h.name)
		h.up = true
		h.cut = false
		h.reported = false
		h.link++
	}
}

// report tells the driver that a host is lost, once.
func (w *world) report(h *simHost, why string) {
	if !h.reported {
		h.reported = true
		w.step(HostLost{h.name, errors.New(why)})
	}
}

func (w *world) crashHost(h *simHost) {
	if !h.up {
		return
	}
	w.Note("world: %s crashes", h.name)
	h.up = false
	for _, p := range slices.Clone(h.procs) {
		w.vanish(p)
	}
	link := h.link
	w.After([]time.Duration{500 * time.Millisecond, 6500 * time.Millisecond}[w.dice.IntN(2)], func() {
		if link == h.link {
			w.report(h, "crashed")
		}
	})
	w.After(10*time.Second+w.upTo(5*time.Minute), func() { w.restore(h) })
}

func (w *world) cutOff(h *simHost) {
	if !h.up || h.cut {
		return
	}
	w.Note("world: %s is cut off", h.name)
	h.cut = true
	link := h.link
	procs := slices.Clone(h.procs)
	w.After(5*time.Second+w.upTo(7*time.Second), func() { // its agent ends itself
		for _, p := range procs {
			w.vanish(p)
		}
	})
	w.After(6500*time.Millisecond, func() {
		if link == h.link {
			w.report(h, "cut off")
		}
	})
	w.After(13*time.Second+w.upTo(2*time.Minute), func() { w.restore(h) })
}

// vanish ends a process without a report.
func (w *world) vanish(p *simProc) {
	if !p.alive {
		return
	}
	w.Note("world: %v/%d vanishes", p.Slot, p.Born)
	p.alive = false
	p.host.procs = slices.DeleteFunc(p.host.procs, func(q *simProc) bool { return q == p })
	w.peers(p)
}

// die ends a process, which its agent reports.
func (w *world) die(p *simProc, code, signal int) {
	if !p.alive || p.phase == stopping && code != 0 && signal == 0 {
		return
	}
	w.Note("world: %v/%d ends with %d/%d", p.Slot, p.Born, code, signal)
	if signal != 0 {
		code = 0
		w.codes[128+signal] = true
	}
	w.codes[code] = true
	failed := code != 0 || signal != 0
	p.alive = false
	p.host.procs = slices.DeleteFunc(p.host.procs, func(q *simProc) bool { return q == p })
	at := w.Now
	w.hear(p, func() Event {
		return Exited{
			Process: p.Process,
			Code:    code,
			Signal:  signal,
			At:      at,
		}
	})
	if failed {
		w.peers(p)
	}
}

// hear delivers an event of a process to the driver, unless the connection has ended by then.
func (w *world) hear(p *simProc, event func() Event) {
	w.After(latency, func() {
		if p.host.up && !p.host.cut && p.host.link == p.link {
			w.step(event())
		}
	})
}

// peers makes the members of an epoch notice the end of one: they park, fail or hang.
func (w *world) peers(gone *simProc) {
	if gone.phase == parked || gone.phase == ready || gone.phase == starting {
		return
	}
	for _, h := range w.hosts {
		for _, p := range h.procs {
			if p.epoch == gone.epoch && (p.phase == running || p.phase == joining) {
				w.alarm(p)
			}
		}
	}
}

func (w *world) alarm(p *simProc) {
	epoch := p.epoch
	w.After(w.upTo(6*time.Second), func() {
		if !p.alive || p.epoch != epoch || p.phase != running && p.phase != joining {
			return
		}
		switch {
		case w.crashes && w.oneIn(60): // hangs
		case w.crashes && w.oneIn(15) || !p.state && w.oneIn(2) && w.crashes:
			w.die(p, 7, 0)
		default:
			w.park(p)
		}
	})
}

func (w *world) park(p *simProc) {
	p.phase = parked
	left := p.epoch
	for range 1 + w.dice.IntN(2) { // a client that asks again
		w.hear(p, func() Event { return Parked{p.Process, left} })
	}
}
