package session

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gorun/gorun/internal/net/wire"
)

// errands are the requests that one host serves beside the job. They are safe for concurrent use.
type errands struct {
	host Identity
	out  *outbox

	mu      sync.Mutex
	last    uint32
	open    map[uint32]*Errand
	running map[uint32]bool // those that the agent has not ended, closed ones too
	closed  bool
}

// Errand is a request that a host serves beside the job. It is safe for concurrent use.
type Errand struct {
	errands *errands
	id      uint32
	input   *wire.Credit

	mu     sync.Mutex
	tells  []tell
	unpaid int           // cost of output whose credit was not returned
	ended  bool          // whether the agent has told the end
	more   chan struct{} // has an element if there are tells, or the errand is over
	over   error         // why no more tells come, or nil
}

type tell struct {
	what wire.Tell
	data []byte
}

var errHostGone = errors.New("the host's ranks have ended, or the host was lost")

// Ask begins an errand and sets ask.ID. The caller closes the errand.
func (all *errands) Ask(ask wire.Ask) (*Errand, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed {
		return nil, errHostGone
	}
	if len(all.open) >= maxErrands {
		return nil, fmt.Errorf("%s: %d requests are open already", all.host.Host.Name, maxErrands)
	}
	if len(all.running) >= wire.MaxErrands { // the agent would end, and the job with it
		return nil, fmt.Errorf("%s: it has %d requests, some of which it is ending: try again", all.host.Host.Name,
			len(all.running))
	}
	all.last++
	ask.ID = all.last
	e := &Errand{
		errands: all,
		id:      ask.ID,
		input:   wire.NewCredit(),
		more:    make(chan struct{}, 1),
	}
	all.open[ask.ID] = e
	all.running[ask.ID] = true
	all.out.SendMessage(wire.TypeAsk, ask)
	return e, nil
}

// maxErrands bounds the open errands of a session. It is below the agent's bound, because an agent
// takes seconds to end a command.
const maxErrands = 32

// ReceiveTell handles a tell of the agent.
func (all *errands) ReceiveTell(f wire.Frame) error {
	what, data, err := f.Tell()
	if err != nil {
		return err
	}
	all.mu.Lock()
	e := all.open[f.Stream]
	known := f.Stream > 0 && f.Stream <= all.last
	if what == wire.TellEnd {
		delete(all.running, f.Stream)
	}
	all.mu.Unlock()
	switch {
	case !known:
		return &wire.FormatError{Reason: fmt.Sprintf("tell of errand %d, which was not begun", f.Stream)}
	case e == nil:
		return nil // the errand was closed
	}
	return e.receive(what, data)
}

func (e *Errand) receive(what wire.Tell, data []byte) error {
	if what == wire.TellCredit {
		n, err := (wire.Frame{Type: wire.TypeCredit, Payload: data}).Credit()
		if err != nil {
			return err
		}
		return e.input.Add(n)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case what != wire.TellOut && what != wire.TellErr && what != wire.TellEnd:
		return &wire.FormatError{Reason: fmt.Sprintf("the agent told %d of an errand", what)}
	case e.ended:
		return &wire.FormatError{Reason: "a tell of an errand after its end"}
	case what == wire.TellEnd:
		e.ended = true
		e.input.Close() // the host need not return credit any more
	default:
		if e.unpaid += wire.Cost(len(data)); e.unpaid > wire.Window {
			return &wire.FormatError{Reason: "output of an errand beyond its credit"}
		}
	}
	if e.over == nil {
		e.tells = append(e.tells, tell{what, slices.Clone(data)})
		e.wake()
	}
	return nil
}

func (e *Errand) wake() {
	select {
	case e.more <- struct{}{}:
	default:
	}
}

// Next returns the next tell: wire.TellOut, wire.TellErr or wire.TellEnd, which is the last. Only
// one goroutine may call it.
func (e *Errand) Next(ctx context.Context) (what wire.Tell, data []byte, err error) {
	for {
		e.mu.Lock()
		if len(e.tells) > 0 {
			t := e.tells[0]
			e.tells = e.tells[1:]
			if t.what != wire.TellEnd {
				cost := wire.Cost(len(t.data))
				e.unpaid -= cost
				e.send(wire.TellCredit, binary.BigEndian.AppendUint32(nil, uint32(cost)))
			}
			e.mu.Unlock()
			return t.what, t.data, nil
		}
		err = e.over
		e.mu.Unlock()
		if err != nil {
			return 0, nil, err
		}
		select {
		case <-e.more:
		case <-ctx.Done():
			return 0, nil, context.Cause(ctx)
		}
	}
}

// Result waits for the end of the errand and returns its standard output, of at most limit bytes.
func (e *Errand) Result(ctx context.Context, limit int) (out []byte, err error) {
	err = e.Output(ctx, func(data []byte) error {
		if len(out)+len(data) > limit {
			return fmt.Errorf("%s: an answer of more than %d bytes", e.errands.host.Host.Name, limit)
		}
		out = append(out, data...)
		return nil
	})
	return out, err
}

// Output passes the standard output of the errand to took until it ends, or took fails. Only one
// goroutine may call it.
func (e *Errand) Output(ctx context.Context, took func(data []byte) error) error {
	for {
		what, data, err := e.Next(ctx)
		if err == nil && what == wire.TellOut {
			err = took(data)
		}
		if err != nil {
			return err
		}
		if what == wire.TellEnd {
			end, err := e.End(data)
			if err == nil && end.Error != "" {
				err = errors.New(end.Error)
			}
			return err
		}
	}
}

// End reads the bytes of a wire.TellEnd, which come from the host. An error and a hint in it begin
// with the host's name, but for a hint of this machine.
func (e *Errand) End(data []byte) (end wire.ErrandEnd, err error) {
	err = json.Unmarshal(data, &end)
	end.Code = max(0, min(end.Code, 255))
	if end.Error != "" {
		host := e.errands.host.Host.Name
		end.Error = host + ": " + Reason(end.Error)
		if end.Hint = Clean(end.Hint); end.Hint != "" && host != "localhost" {
			end.Hint = host + ": " + end.Hint
		}
	}
	return end, err
}

func (e *Errand) send(what wire.Tell, data []byte) {
	e.errands.out.send(wire.TypeTell, e.id, append([]byte{byte(what)}, data...))
}

// Input sends bytes to standard input when there is credit; empty data ends it. It fails when the
// errand has ended.
func (e *Errand) Input(data []byte) error {
	for first := true; first || len(data) > 0; first = false {
		n := e.input.Take(min(max(len(data), 1), wire.MaxTell))
		if n == 0 {
			return errHostGone
		}
		piece := data[:min(n, len(data))]
		if len(piece) < n {
			_ = e.input.Add(n - len(piece))
		}
		e.send(wire.TellIn, piece)
		data = data[len(piece):]
	}
	return nil
}

// Resize changes the size of the errand's terminal.
func (e *Errand) Resize(t wire.Terminal) {
	if text, err := json.Marshal(t); err == nil {
		e.send(wire.TellSize, text)
	}
}

// Close ends the errand.
func (e *Errand) Close() {
	e.errands.mu.Lock()
	_, open := e.errands.open[e.id]
	delete(e.errands.open, e.id)
	e.errands.mu.Unlock()
	if open {
		e.send(wire.TellEnd, nil)
	}
	e.end()
}

// end lets Next and Input return.
func (e *Errand) end() {
	e.input.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = errHostGone
	e.wake()
}

func (all *errands) close() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.closed = true
	for _, e := range all.open {
		e.end()
	}
}
