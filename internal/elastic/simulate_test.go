package elastic

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/simulate"
)

var errNoConnection = errors.New("no connection")

// checkPlan checks what the driver promises of an epoch that begins.
func (w *world) checkPlan(plan Plan) {
	if plan.Epoch <= w.announced {
		w.Broken("epoch %d after %d", plan.Epoch, w.announced)
	}
	n := len(plan.Members)
	if n < w.cfg.Min || n > w.cfg.Max || w.announced == 0 && n > w.cfg.NP && !w.cfg.Horovodrun {
		w.Broken("epoch %d has %d ranks; at least %d, at first %d, at most %d", plan.Epoch, n, w.cfg.Min, w.cfg.NP,
			w.cfg.Max)
	}
	slots := map[Slot]bool{}
	hosts := map[string]bool{}
	before := ""
	cross := map[int]int{}
	node := 0
	for i, m := range plan.Members {
		switch {
		case m.Rank != i || m.Size != n:
			w.Broken("rank %d of %d at place %d of %d", m.Rank, m.Size, i, n)
		case slots[m.Slot]:
			w.Broken("%v is there twice", m.Slot)
		case m.Host != before && hosts[m.Host]:
			w.Broken("ranks of %s are not contiguous", m.Host)
		case m.LocalRank >= m.LocalSize || m.CrossRank >= m.CrossSize || m.LocalRank > m.Local:
			w.Broken("bad numbers %+v", m)
		case m.CrossRank != cross[m.LocalRank]:
			w.Broken("bad cross rank %+v", m)
		}
		if before != "" && m.Host != before {
			node++
		}
		if m.Node != node || m.Nodes != plan.Members[0].Nodes {
			w.Broken("bad node %+v", m)
		}
		cross[m.LocalRank]++
		slots[m.Slot] = true
		hosts[m.Host] = true
		before = m.Host
		if p := w.find(m.Process); p != nil && p.phase != ready && p.phase != parked {
			w.Broken("%+v begins epoch %d while it is %d", m.Process, plan.Epoch, p.phase)
		}
	}
	if plan.Members[0].Nodes != len(hosts) {
		w.Broken("%d hosts are said to be %d", len(hosts), plan.Members[0].Nodes)
	}
	ever := len(w.joined) > 0
	if zero := plan.Members[0].Process; ever && !w.cfg.StartOver && !w.joined[zero] {
		w.Broken("rank 0 of epoch %d, %v, has no state", plan.Epoch, zero)
	}
	for _, h := range w.hosts {
		if known := w.d.host(h.name); known != nil && known.lost {
			w.Broken("epoch %d begins, and %s is lost and not fenced", plan.Epoch, h.name)
		}
		for _, p := range h.procs {
			if (p.phase == running || p.phase == joining) && h.reported {
				w.Broken("epoch %d begins, and %v of epoch %d is still there on a lost host", plan.Epoch, p.Slot,
					p.epoch)
			}
			if (p.phase == running || p.phase == joining) && !h.cut {
				w.Broken("epoch %d begins, and %v is at work in epoch %d", plan.Epoch, p.Slot, p.epoch)
			}
		}
	}
}

// countChanges checks that no host changes the job more than 6 times an hour. Exceptions are worlds
// where processes fail by themselves, because of hosts with one slot, and where every epoch
// restarts all processes on all usable hosts.
func (w *world) countChanges(plan Plan) {
	for _, h := range w.hosts {
		if w.plan.has(h.name) != plan.has(h.name) {
			h.changes = append(within(h.changes, time.Hour, w.Now), w.Now)
		}
		if len(h.changes) > 6 && !w.crashes && !w.storm && !w.cfg.Together && !w.cfg.Horovodrun {
			w.Broken("%s changes the job at %v", h.name, h.changes)
		}
	}
}

func (w *world) finish(a End) {
	w.ended = true
	w.end = a
	w.endAt = w.Now
	for _, h := range w.hosts {
		for _, p := range h.procs {
			w.Broken("the job has ended, and %v/%d is alive", p.Slot, p.Born)
		}
	}
	switch {
	case a.Code != CodeNoRank && !w.codes[a.Code]:
		w.Broken("code %d, with which nothing ended", a.Code)
	case a.Code == 0 && w.Now < w.workEnd:
		w.Broken("code 0 before the work was done")
	case len(w.joined) > 0 && a.Code > 128 && !w.doomed && strings.Contains(a.Cause, "again and again"):
		w.Broken("code %d: %s", a.Code, a.Cause)
	case a.Code != 0 && a.Cause == "":
		w.Broken("code %d without a cause", a.Code)
	}
}

func (w *world) run() error {
	for !w.ended && w.Fault == nil {
		w.Next()
		for _, h := range w.hosts {
			for _, p := range h.procs {
				if w.d.wasWhole() && p.phase == running && w.d.inForce.Epoch == p.epoch {
					p.state = true
					w.joined[p.Process] = true
				}
			}
		}
		if w.Now > w.workEnd+3*time.Hour {
			w.Broken("the job never ends")
		}
	}
	return w.Fault
}

func playJob(seed uint64, tell bool) (code int, c *simulate.Clock) {
	w := newWorld(seed, tell)
	_ = w.run()
	return w.end.Code, &w.Clock
}

// TestWholeElasticJobs plays made-up jobs. make simulate-elastic plays more of them (N=6000), or
// one with its log (SEED=7).
func TestWholeElasticJobs(t *testing.T) {
	simulate.Seeds(t, 120, []int{0, 3, CodeNoRank, 130, 137}, playJob)
}

func TestElasticJobsOfOneSeedAreTheSame(t *testing.T) { simulate.Repeatable(t, 10, playJob) }

// No mix of signals ends a job whose program works. make simulate-elastic plays more of them.
func TestStormOfSignals(t *testing.T) {
	simulate.Seeds(t, 60, []int{0}, func(seed uint64, tell bool) (code int, c *simulate.Clock) {
		w := newStorm(seed, tell)
		if w.run(); w.end.Code != 0 {
			w.Broken("ended with %+v", w.end)
		}
		return w.end.Code, &w.Clock
	})
}
