package core

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/launcher/session"
)

// boss is the launcher's process: its core, with the loop of package launcher around it.
type boss struct {
	w        *world
	core     *Machine
	fences   *Fences
	sessions []*session.Liveness // for the hosts' clocks
	heard    []time.Duration
	done     []bool
	looked   time.Duration
	unread   [][]any // by host; the last is the user's

	stopped, over bool
	stoppedAt     time.Duration
	overAt        time.Duration
	code          int           // its exit code
	told          bool          // it ended by itself, so the code is checked
	known         map[int]Exit  // by rank, as reported to it
	blur          time.Duration // bound on the error of their times
	due           time.Duration // when it must be over, once it is being stopped
	ticking       bool
	aborts        int
}

func newBoss(w *world) *boss {
	b := &boss{
		w:      w,
		core:   New(w.plan, w.grace, TolerateNone),
		fences: NewFences(0, w.plan.Size),
		known:  map[int]Exit{},
		unread: make([][]any, len(w.hosts)+1),
	}
	for range w.hosts {
		b.sessions = append(b.sessions, &session.Liveness{})
		b.heard = append(b.heard, 0)
		b.done = append(b.done, false)
	}
	b.beat()
	return b
}

// post hands an event of a host to the loop; host -1 is the user.
func (b *boss) post(host int, message any) {
	switch {
	case b.over:
	case b.stopped && host < 0:
		b.unread[len(b.w.hosts)] = append(b.unread[len(b.w.hosts)], message)
	case b.stopped:
		b.unread[host] = append(b.unread[host], message)
	default:
		b.read(host, message)
	}
}

// read handles one message as the readers and the loop do.
func (b *boss) read(host int, message any) {
	if host >= 0 {
		if _, lost := message.(HostLost); !lost {
			b.heard[host] = b.w.Now
		}
	}
	switch e := message.(type) {
	case beatMessage:
		var payload [8]byte
		binary.BigEndian.PutUint64(payload[:], uint64(e.at))
		b.sessions[host].Received(wire.Frame{Type: wire.TypeHeartbeat, Payload: payload[:]}, b.w.Now)
	case wire.Exit:
		b.blur = max(b.blur, b.mistake(host))
		e.At = b.sessions[host].ToLauncher(e.At, b.w.Now)
		b.apply(RankExited{host, ExitOf(e)})
	case wire.Lost:
		b.apply(RankLost{e})
	case wire.Failing:
		b.apply(HostFailing{host, session.ExplainFailing(e)})
	case wire.Fence:
		b.fence(e)
	case doneMessage:
		b.done[host] = true
		b.apply(HostDone{Host: host})
	case hangUp:
		if !b.done[host] {
			b.apply(HostLost{host, errors.New("the stream ended")})
		}
	case Event:
		b.apply(e)
	}
}

// mistake bounds the error of a host's times: the delay of the fastest heartbeat so far.
func (b *boss) mistake(host int) time.Duration {
	const rest = 10 * time.Millisecond
	if offset, known := b.sessions[host].Offset(); known {
		return offset - b.w.hosts[host].began + rest
	}
	return b.w.Now
}

func (b *boss) fence(f wire.Fence) {
	all, err := b.fences.Add("a host", f)
	if all != nil {
		b.toAll(*all)
	}
	if stuck := new(RankLost); errors.As(err, &stuck) {
		b.apply(*stuck)
	} else if err != nil {
		b.apply(Abort{wire.Abort{Rank: -1, Cause: err.Error()}})
	}
}

func (b *boss) toAll(message any) {
	for _, h := range b.w.hosts {
		h.down.send(message)
	}
}

// apply passes an event to the core and performs its actions, as the launcher does.
func (b *boss) apply(event Event) {
	if b.over {
		return
	}
	b.forgive()
	w := b.w
	switch e := event.(type) {
	case Tick:
	case HostLost:
		w.Note("launcher: %s is lost: %v", w.hosts[e.Host].name, e.Err)
	case HostFailing:
		w.Note("launcher: %s is ending: %v", w.hosts[e.Host].name, e.Err)
	default:
		w.Note("launcher: %T%+v", event, event)
	}
	if e, ok := event.(RankExited); ok {
		b.known[e.Exit.Rank] = e.Exit
		b.fences.RankEnded(e.Exit.Rank)
		if stuck := b.fences.Stuck(); stuck != nil && !e.Exit.IsFailure() {
			b.apply(*stuck)
		}
	}
	for _, act := range b.core.Step(event, w.Now) {
		if b.over {
			w.Broken("%T after the end", act)
		}
		w.Note("launcher: does %T%+v", act, act)
		switch act := act.(type) {
		case StopRanks:
			b.stop(act.Grace)
		case AbortRanks:
			if b.aborts++; b.aborts > 1 {
				w.Broken("the ranks are told to abort twice")
			}
			b.toAll(act.Abort)
		}
	}
	if b.core.finished && !b.over {
		for i, events := range b.unread {
			if slices.Contains(events, any(doneMessage{})) {
				w.Broken("%s was done, and the launcher ends without having read it", w.hosts[i].name)
			}
		}
		r := b.core.Result()
		b.told = true
		b.end(r.Code())
	}
	if !b.over && b.core.stopping && w.Now >= b.due {
		w.Broken("not over at %v, bound %v", w.Now, b.due)
	}
}

func (b *boss) stop(grace time.Duration) {
	due := b.w.Now + grace + StopMargin
	if b.ticking && due >= b.due {
		b.w.Broken("a later stop gives more time: %v after %v", due, b.due)
	}
	b.due = due
	b.toAll(wire.Stop{Grace: grace})
	if !b.ticking {
		b.ticking = true
		b.tick()
	}
}

func (b *boss) tick() {
	if b.over {
		return
	}
	if !b.stopped {
		b.apply(Tick{})
	}
	b.w.After(TickTime, b.tick)
}

// end ends the process, and with it the agents' streams.
func (b *boss) end(code int) {
	if b.over {
		return
	}
	b.w.Note("launcher: ends with %d", code)
	b.over = true
	b.overAt = b.w.Now
	b.code = code
	for _, h := range b.w.hosts {
		h.down.send(hangUp{})
	}
}

// beat sends a heartbeat each second and checks for silent agents.
func (b *boss) beat() {
	if b.over {
		return
	}
	if !b.stopped {
		b.toAll(beatMessage{b.w.Now})
		b.apply(b.findHung())
	}
	b.w.After(session.BeatTime, b.beat)
}

// forgive resets the agents' silence after the launcher itself was suspended.
func (b *boss) forgive() {
	if !b.over && b.w.Now-b.looked > SuspendedTime {
		for i := range b.heard {
			b.heard[i] = b.w.Now
		}
	}
	if still := b.w.Now - b.looked - TickTime; !b.over && still > TickTime {
		b.core.Step(Woke{still}, b.w.Now)
		b.due = max(b.due+still, b.w.Now+TickTime)
	}
	b.looked = b.w.Now
}

// findHung returns the loss of a silent host, or a tick.
func (b *boss) findHung() Event {
	b.forgive()
	for i := range b.heard {
		if b.w.Now-b.heard[i] > HungTime && !b.core.Settled(i) {
			return HostLost{i, fmt.Errorf("no word from the agent for %v", HungTime)}
		}
	}
	return Tick{}
}

// resume continues the launcher, which reads the messages that came meanwhile, hosts in any order.
func (b *boss) resume() {
	if !b.stopped {
		return
	}
	w := b.w
	w.Note("launcher: continued")
	b.stopped = false
	if w.oneIn(2) {
		b.apply(b.findHung())
	}
	for left := true; left && !b.over; {
		left = false
		first := w.dice.IntN(len(b.unread))
		for i := range b.unread {
			i = (i + first) % len(b.unread)
			if len(b.unread[i]) > 0 {
				event := b.unread[i][0]
				b.unread[i] = b.unread[i][1:]
				if i == len(w.hosts) {
					i = -1
				}
				b.read(i, event)
				left = true
				break
			}
		}
	}
}
