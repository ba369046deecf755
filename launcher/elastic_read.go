package launcher

import (
	"cmp"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/elastic"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/launcher/core"
	"github.com/gorun/gorun/launcher/session"
)

// hostsListed is the debounced list of the job's hosts.
type hostsListed struct{ hosts []hostfile.Host }

func (hostsListed) loopEvent() {}
func (processUp) loopEvent()   {}
func (processDown) loopEvent() {}
func (hostFenced) loopEvent()  {}
func (SlowRank) loopEvent()    {}

func (j *elasticJob) handle(event event) {
	switch e := event.(type) {
	case hostsListed:
		admitted := j.admit(e.hosts)
		j.update(admitted)
		j.step(elastic.Hosts{List: admitted})
	case processUp:
		j.up(e)
	case hostFenced:
		if e.host.losses == e.loss {
			j.step(elastic.HostFenced{Host: e.host.host.Name})
		}
	case SlowRank:
		if j.epoch == nil || e.Rank >= len(j.epoch.plan.Members) {
			break
		}
		if m := j.epoch.plan.Members[e.Rank]; m.Host == e.Host { // else it was in an earlier epoch
			j.step(elastic.Slow{Process: m.Process, Text: e.Text})
		}
	case processDown:
		j.pause.without(e.process.serial)
		j.down(e)
	case reported:
		j.reported(j.serial(e.from.Index), e.message)
	case agentHung:
		j.hostLost(e.session.Host.Name, e.err)
	case launcherWoke:
		if e.gap > core.SuspendedTime {
			j.suspended += e.gap
		}
	}
}

func (j *elasticJob) connected() (all []*session.Session) {
	for _, p := range j.procs {
		if p.session != nil {
			all = append(all, p.session)
		}
	}
	return all
}

func (j *elasticJob) expected(s *session.Session) bool { return !j.serial(s.Index).exited }

// check accepts every message: validity depends on the epoch, which the loop checks.
func (j *elasticJob) check(*session.Session, report) error { return nil }

// reported handles a message of a process or its agent.
func (j *elasticJob) reported(p *elasticProcess, message report) {
	if j.fenced(p) {
		return
	}
	switch m := message.(type) {
	case exited:
		j.pause.without(p.serial)
		j.exit(p, m.exit)
	case sent[wire.Park]:
		if m.body.Left == 0 {
			j.step(elastic.Ready{Process: p.name})
		} else {
			j.step(elastic.Parked{Process: p.name, Left: m.body.Left})
		}
	case sent[wire.Joined]:
		j.step(elastic.Joined{Process: p.name, Epoch: m.body.Epoch})
	case sent[wire.Lost]:
		j.connectionLost(p, *m.body)
	case allDone:
		j.end.Unkillable = append(j.end.Unkillable, m.left...)
	case sent[wire.Failing]:
		p.failing = session.ExplainFailing(*m.body)
	case sent[wire.Fence]:
		if err := j.fence(p, *m.body); err != nil && p.session != nil {
			j.hostLost(p.name.Host, err)
		}
	}
}

// connectionLost handles a rank's report that it lost another one. It only aborts the epoch, unless
// the rank ends the job: the end of a process or of a host is detected separately.
func (j *elasticJob) connectionLost(p *elasticProcess, l wire.Lost) {
	if l.Abort {
		j.step(elastic.Aborted{Process: p.name, Cause: session.Reason(l.Cause)})
		return
	}
	m, member := j.memberOf(p)
	if !member || l.Epoch != j.epoch.plan.Epoch || l.By != m.Rank || l.Rank < 0 || l.Rank >= m.Size {
		return
	}
	p.lostBy = l.Epoch
	if l.Left {
		return
	}
	l.Cause = session.Reason(l.Cause)
	failed := cmp.Or(j.procs[j.epoch.plan.Members[l.Rank].Process], p)
	j.abort(failed.name.Host, failed, core.RankLost{Lost: l}.AbortCause())
	j.step(elastic.RankLost{Process: p.name, Rank: l.Rank})
}
