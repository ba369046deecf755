package launcher

import (
	"fmt"

	"github.com/gorun/gorun/internal/elastic"
	"github.com/gorun/gorun/internal/wire"
	"github.com/gorun/gorun/launcher/session"
)

// read takes one agent's frames until its session ends; the error is why, unless all was said.
func (j *elasticJob) read(p *elasticProcess, s *session.Session) error {
	for {
		f, err := s.Frames.Next()
		if err == nil {
			s.Received(f, j.clock())
			if f.Type == wire.TypeDone {
				return j.done(p, s, f)
			}
			err = j.frame(p, s, f)
		}
		if err != nil {
			return s.LossReason(err)
		}
	}
}

// done is an agent's last word.
func (j *elasticJob) done(p *elasticProcess, s *session.Session, f wire.Frame) error {
	if err := s.CheckDone(); err != nil || len(f.Payload) == 0 {
		return err
	}
	return forward[wire.Done](j, p, f)
}

// frame handles one frame of a process's agent, which can only speak for that process.
func (j *elasticJob) frame(p *elasticProcess, s *session.Session, f wire.Frame) error {
	switch f.Type {
	case wire.TypeHeartbeat, wire.TypeFailing:
		return nil // what becomes of an agent that ends is seen at its end
	case wire.TypeOutput:
		return j.output(p, s, f)
	case wire.TypeCredit:
		return nil // nobody reads input
	case wire.TypeExit:
		return wire.Handle(f, func(e wire.Exit) error {
			if err := s.CheckExit(&e); err != nil {
				return err
			}
			e.At = session.Clamp(s.ToLauncher(e.At, j.clock()), 0, j.clock())
			j.post(processFrame{p, exitOf(e)})
			return nil
		})
	case wire.TypeNote:
		return wire.Handle(f, func(n wire.Note) error {
			n.By = s.Host.Ranks[0].Rank
			worth, err := s.CheckNote(&n)
			if worth {
				j.opts.Note(fmt.Sprintf("rank %d on %s: %s", p.rank.Load(), s.Host.Name, n.Text))
			}
			return err
		})
	case wire.TypePut:
		return wire.Handle(f, func(put wire.Put) error { return j.store.Put(put.Key, put.Value) })
	case wire.TypeGet:
		return wire.Handle(f, func(g wire.Get) error { return s.Get(j.life, j.store, g) })
	case wire.TypeSuspended:
		j.post(processFrame{p, eventSuspended{p.serial}})
		return nil
	case wire.TypeLost:
		return forward[wire.Lost](j, p, f)
	case wire.TypeFence:
		return forward[wire.Fence](j, p, f)
	case wire.TypePark:
		return forward[wire.Park](j, p, f)
	case wire.TypeJoined:
		return forward[wire.Joined](j, p, f)
	}
	return &wire.FormatError{Reason: fmt.Sprintf("the agent sent a %s frame", f.Type)}
}

// forward hands a message to the loop.
func forward[T any](j *elasticJob, p *elasticProcess, f wire.Frame) error {
	return wire.Handle(f, func(message T) error {
		j.post(processFrame{p, message})
		return nil
	})
}

// apply does what follows from an event.
func (j *elasticJob) apply(event any) {
	switch e := event.(type) {
	case elastic.Hosts:
		e.List = j.admit(e.List)
		j.believe(e.List)
		j.step(e)
	case processUp:
		j.up(e)
	case processDown:
		j.pause.without(e.process.serial)
		j.down(e)
	case processFrame:
		j.said(e.process, e.message)
	case eventOutput:
		j.cannotWrite(e.err)
	}
}

// said is what a process or its agent has said.
func (j *elasticJob) said(p *elasticProcess, message any) {
	if p.gone {
		return
	}
	switch m := message.(type) {
	case Exit:
		j.pause.without(p.serial)
		j.exit(p, m)
	case wire.Park:
		p.asked = true
		j.aware()
		if m.Left == 0 {
			j.step(elastic.Ready{Process: p.name})
		} else {
			j.step(elastic.Parked{Process: p.name, Left: m.Left})
		}
	case wire.Joined:
		j.step(elastic.Joined{Process: p.name, Epoch: m.Epoch})
	case wire.Lost:
		j.lostPeer(p, m)
	case wire.Done:
		j.result.Unkillable = append(j.result.Unkillable, unkillableOn(p.name.Host, m.Unkillable)...)
	case eventSuspended:
		j.pause.without(m.host)
	case wire.Fence:
		if err := j.fence(p, m); err != nil && p.session != nil {
			j.lost(p.name.Host, err)
		}
	}
}

// lostPeer is a rank's word that it cannot go on with another one. Who it was is in doubt: the end of a process, or of a host, shows by itself.
func (j *elasticJob) lostPeer(p *elasticProcess, l wire.Lost) {
	m, member := j.memberOf(p)
	if !member || l.Epoch != j.epoch.plan.Epoch || l.By != m.Rank || l.Rank < 0 || l.Rank >= m.Size {
		return
	}
	p.lostBy = l.Epoch
	at := j.epoch.plan.Members[l.Rank]
	cause := session.Clean(l.Cause)
	if l.By != l.Rank {
		cause = fmt.Sprintf("rank %d lost it: %s", l.By, cause)
	}
	if peer := j.procs[at.Process]; peer != nil {
		j.abort(elasticAbort{process: peer, host: at.Host, cause: cause})
	} else {
		j.abort(elasticAbort{process: p, host: p.name.Host, cause: cause})
	}
}
