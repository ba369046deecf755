package negotiate

import "fmt"

// idleNames is how many names of finished operations an outbox keeps, so that names
// that come again cost no allocation.
const idleNames = 4096

// Outbox holds what this rank has submitted and not sent yet, and knows which of its
// names are in flight. It is not safe for concurrent use.
type Outbox struct {
	rank, size int
	list       []Request
	names      map[string]bool // whether in flight
	flying     int
}

// NewOutbox makes the outbox of rank in a world of size ranks.
func NewOutbox(rank, size int) *Outbox {
	return &Outbox{rank: rank, size: size, names: make(map[string]bool)}
}

// Submit adds r to the list. A name that is in flight is a [*DuplicateError]. After an
// error the outbox is as it was.
func (o *Outbox) Submit(r Request) error {
	if err := r.check(o.size); err != nil {
		return fmt.Errorf("submit tensor %.80q: %w", r.Name, err)
	}
	if o.names[r.Name] {
		return &DuplicateError{Name: r.Name, Rank: o.rank}
	}
	o.names[r.Name] = true
	o.flying++
	o.list = append(o.list, r)
	return nil
}

// List is what has not been sent, in the order of submission. It is valid until the
// next call of Submit or Sent.
func (o *Outbox) List() []Request { return o.list }

// Sent takes the first n requests off the list. Their names stay in flight.
func (o *Outbox) Sent(n int) {
	rest := copy(o.list, o.list[n:])
	clear(o.list[rest:])
	o.list = o.list[:rest]
}

// Withdraw takes back the last n requests. They are still in the list, and their names stay
// in flight until Done.
func (o *Outbox) Withdraw(n int) {
	keep := len(o.list) - n
	clear(o.list[keep:])
	o.list = o.list[:keep]
}

// Done frees a name: its operation has ended on this rank, well or badly.
func (o *Outbox) Done(name string) {
	if !o.names[name] {
		return
	}
	o.names[name] = false
	o.flying--
	if len(o.names) <= o.flying+idleNames {
		return
	}
	for name, flies := range o.names {
		if !flies {
			delete(o.names, name)
		}
	}
}

// InFlight is how many names are submitted and not done.
func (o *Outbox) InFlight() int { return o.flying }
