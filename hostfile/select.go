package hostfile

import (
	"cmp"
	"fmt"
)

// AbsentError reports that a list names a host that is not among those it
// selects from.
type AbsentError struct {
	ParseError
	Host string   // the name
	Have []string // the existing names
}

// Unwrap returns the error as a [*ParseError].
func (e *AbsentError) Unwrap() error { return &e.ParseError }

// Select returns the hosts that l names, in l's order; whose is the name of hosts in
// errors. A host without a count keeps its slots; one with a count gets that many, which
// must not exceed its slots. Names must be equal, and users and ports if both are given.
// +nK is the host at 0-based index K, +e is every host not yet selected, and a list of
// excludes selects all others. An error is a [*ParseError] or an [*AbsentError].
func (l List) Select(from []Host, whose string) ([]Host, error) {
	s := selection{
		from:     from,
		whose:    whose,
		byName:   map[string][]int{},
		named:    newTable(),
		done:     map[identity]bool{},
		excluded: l.excluded(),
		place:    map[int]int{},
	}
	for i, h := range from {
		s.byName[h.Name] = append(s.byName[h.Name], i)
	}
	chooses := false
	for _, e := range l.entries {
		if e.kind == kindHost {
			chooses = true
			if err := s.named.add(e.at, e.host); err != nil {
				err.File = l.name
				return nil, err
			}
		}
		chooses = chooses || e.kind != kindExclude
	}
	s.chosen = from
	if chooses {
		s.chosen = nil
	}
	for _, e := range l.entries {
		if err := s.choose(e); err != nil {
			return nil, named(err, l.name)
		}
	}
	left := l.without(s.chosen)
	if len(left) == 0 {
		return nil, &ParseError{File: l.name, Msg: "no host of " + whose + " is left"}
	}
	return left, nil
}

// named adds the name of a text to err.
func named(err error, file string) error {
	switch e := err.(type) {
	case *ParseError:
		e.File = file
	case *AbsentError:
		e.File = file
	}
	return err
}

// selection is the state of applying a list.
type selection struct {
	from     []Host
	whose    string
	byName   map[string][]int  // indices in from
	named    *table            // mentions of l, added up
	done     map[identity]bool // mentions that were selected
	excluded map[string]bool
	chosen   []Host
	place    map[int]int // index in chosen of each chosen host, by index in from
}

func (s *selection) choose(e entry) error {
	switch e.kind {
	case kindHost:
		if s.excluded[e.host.Name] {
			return nil
		}
		return s.host(e)
	case kindNth:
		if e.n >= len(s.from) {
			return e.at.fault(fmt.Sprintf("%s has the hosts +n0 to +n%d", s.whose, len(s.from)-1))
		}
		s.take(e.n, s.from[e.n])
	case kindRest:
		return s.rest(e)
	}
	return nil
}

// host selects the hosts of a mention. Mentions of one host count once, with their
// slots added up.
func (s *selection) host(e entry) error {
	id := identity{e.host.Name, e.host.User, e.host.Port}
	if s.done[id] {
		return nil
	}
	s.done[id] = true
	i := s.named.index[id]
	want := s.named.list[i]
	counted := s.named.counted[i] && !want.Auto
	left := want.Slots
	have := 0
	found := false
	for _, i := range s.matches(want) {
		found = true
		have += s.from[i].Slots
		if !counted || left > 0 {
			s.take(i, narrow(s.from[i], want, counted, &left))
		}
	}
	if !found {
		return s.absent(e)
	}
	if counted && left > 0 {
		return e.at.fault(fmt.Sprintf("%d slots asked for, but %s has %d for this host; ask for at most %d", want.Slots,
			s.whose, have, have))
	}
	return nil
}

// matches returns the indices of the hosts that want means: the identical host, or those with its
// user, or all of its name whose user and port do not differ.
func (s *selection) matches(want Host) []int {
	var all, users []int
	for _, i := range s.byName[want.Name] {
		h := s.from[i]
		switch {
		case h.User == want.User && h.Port == want.Port:
			return []int{i}
		case differ(want.User, h.User) || differ(want.Port, h.Port):
			continue
		case want.User != "" && h.User == want.User:
			users = append(users, i)
		}
		all = append(all, i)
	}
	if users != nil {
		return users
	}
	return all
}

// narrow returns h with the slots that want asks for. Of counted slots it takes up to
// *left, and updates *left.
func narrow(h, want Host, counted bool, left *int) Host {
	h.User = cmp.Or(h.User, want.User)
	h.Port = cmp.Or(h.Port, want.Port)
	h.GPUs = cmp.Or(want.GPUs, h.GPUs)
	if want.MaxSlots != 0 && (h.MaxSlots == 0 || want.MaxSlots < h.MaxSlots) {
		h.MaxSlots = want.MaxSlots
		h.Slots = min(h.Slots, h.MaxSlots)
	}
	if want.Auto {
		h.Auto = true
		h.Slots = 1
		return h
	}
	if !counted {
		return h
	}
	if h.Auto {
		h.Auto = false
		h.Slots = *left
	}
	h.Slots = min(h.Slots, *left)
	*left -= h.Slots
	return h
}

// differ reports whether two values are both given and not equal.
func differ[T comparable](a, b T) bool {
	var none T
	return a != none && b != none && a != b
}

func (s *selection) absent(e entry) error {
	var names []string
	for _, h := range s.from {
		names = append(names, h.Name)
	}
	fault := e.at.fault(fmt.Sprintf("%s has no host %s", s.whose, e.host.Name))
	return &AbsentError{ParseError: *fault, Host: e.host.Name, Have: names}
}

// rest selects hosts that were not selected before.
func (s *selection) rest(e entry) error {
	wanted := cmp.Or(e.n, len(s.from))
	free := 0
	for i, h := range s.from {
		if _, taken := s.place[i]; taken {
			continue
		}
		if free == wanted {
			return nil
		}
		free++
		s.take(i, h)
	}
	if e.n > 0 && free < e.n {
		return e.at.fault(fmt.Sprintf("%s has %d more hosts", s.whose, free))
	}
	return nil
}

// take selects h, which is the host at index i of from or a part of it. Parts are added up.
func (s *selection) take(i int, h Host) {
	at, known := s.place[i]
	if !known {
		s.place[i] = len(s.chosen)
		s.chosen = append(s.chosen, h)
		return
	}
	s.chosen[at].Slots = min(s.chosen[at].Slots+h.Slots, max(s.from[i].Slots, s.chosen[at].Slots))
}
