package negotiate

import "fmt"

// idleNames is the number of names of finished operations that an outbox keeps, so that
// repeated names cost no allocation.
const idleNames = 4096

// Outbox holds this rank's requests that are not sent yet, and the names in flight. It is
// not safe for concurrent use.
type Outbox struct {
	rank, size int
	list       []Request
	names      map[string]bool // whether in flight
	flying     int
}

// NewOutbox returns the outbox of rank in a world of size ranks.
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

// List returns the requests that are not sent yet, in the order of submission. It is valid
// until the next call of Submit or Sent.
func (o *Outbox) List() []Request { return o.list }

// Sent removes the first n requests from the list. Their names stay in flight.
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

// Done releases a name whose operation has ended on this rank.
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

// InFlight returns the number of names that are submitted and not done.
func (o *Outbox) InFlight() int { return o.flying }
