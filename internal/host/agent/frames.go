package agent

import (
	"fmt"

	"github.com/gorun/gorun/internal/net/wire"
)

// read hands the launcher's frames to the loop, until the stream ends.
func (a *agent) read(frames *wire.Reader) {
	for {
		f, err := frames.Next()
		if err == nil {
			a.inform(eventHeard{})
			err = a.frame(f)
		}
		if err != nil {
			a.inform(eventLost{})
			return
		}
	}
}

// frame handles one frame. An error means that the launcher breaks the protocol.
func (a *agent) frame(f wire.Frame) error {
	switch f.Type {
	case wire.TypeHeartbeat:
		return nil
	case wire.TypeStart:
		return wire.Handle(f, func(s wire.Start) error { a.post(func() { a.start(s) }); return nil })
	case wire.TypeStop:
		return wire.Handle(f, func(s wire.Stop) error {
			a.procs.reap() // ranks that have ended were not stopped
			a.inform(eventStop{s.Grace})
			return nil
		})
	case wire.TypeSignal:
		return wire.Handle(f, func(s wire.Signal) error { a.inform(eventSignal{s.Number}); return nil })
	case wire.TypeSuspend, wire.TypeResume:
		a.inform(eventSuspend{f.Type == wire.TypeSuspend})
		return nil
	case wire.TypeAbort:
		return wire.Handle(f, func(m wire.Abort) error {
			a.procs.reap()
			a.inform(eventAborted{a.procs.ending()}) // before any rank can act on it
			a.services.Abort(m)
			return nil
		})
	case wire.TypeEpoch:
		if a.job.Elastic != nil {
			a.inform(eventEpoch{})
		}
		return a.services.Frame(f)
	case wire.TypeInterrupt, wire.TypeFenced, wire.TypeValue, wire.TypeWorld:
		return a.services.Frame(f)
	case wire.TypeAsk, wire.TypeTell:
		return a.errands.Frame(f)
	case wire.TypeStdin:
		select {
		case <-a.started: // otherwise no rank would read it
		case <-a.ended:
			return nil
		}
		return a.streams.stdin.push(f.Payload)
	case wire.TypeCredit:
		return a.streams.addCredit(f)
	}
	return &wire.FormatError{Reason: fmt.Sprintf("the launcher sent a %s frame", f.Type)}
}

// start starts the job's ranks of this host, once.
func (a *agent) start(start wire.Start) {
	if !a.core.mayStart() {
		return
	}
	defer close(a.started)
	a.sendHeartbeat() // dates the end of a rank that fails within a second
	if err := a.services.Begin(start); err != nil {
		a.apply(eventFailing{wire.Failing{Broken: err.Error()}})
		return
	}
	a.starter.start(start)
}
