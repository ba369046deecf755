package hostfile

import "fmt"

// List is the parsed content of a hostfile or of -H, in order. The zero value is
// an empty list.
type List struct {
	Warnings []string // file:line:col: accepted irregularities, one line each
	name     string
	entries  []entry
}

// entry is one mention of a host, or of hosts by their index in an allocation.
type entry struct {
	at   word
	kind kind
	host Host // a host, with Slots 0 if none are written, or the name to exclude
	n    int  // index of kindNth; number of hosts of kindRest, 0: all
}

type kind int

const (
	kindHost    kind = iota
	kindExclude      // ^name
	kindNth          // +nK, the host at index K of the allocation
	kindRest         // +e or +e:N, hosts that no other entry names
)

// Relative reports whether l needs other hosts to select from: it has +n or +e, or
// only excludes.
func (l List) Relative() bool {
	own := false
	for _, e := range l.entries {
		if e.kind == kindNth || e.kind == kindRest {
			return true
		}
		own = own || e.kind == kindHost
	}
	return !own
}

// Hosts returns the hosts of a list in the order of their first mention, without the
// excluded ones. An exclude that matches nothing is valid. An error is a
// [*ParseError]; a [List.Relative] list is an error.
func (l List) Hosts() ([]Host, error) {
	if l.Relative() {
		return nil, l.needsOthers()
	}
	hosts := newTable()
	for _, e := range l.entries {
		if e.kind != kindHost {
			continue
		}
		if err := hosts.add(e.at, e.host); err != nil {
			err.File = l.name
			return nil, err
		}
	}
	left := l.without(hosts.list)
	if len(left) == 0 {
		return nil, &ParseError{File: l.name, Msg: "every host in it is excluded"}
	}
	return left, nil
}

// Mentions returns the hosts of a list in the order of its mentions, each as often as it is
// mentioned, without the excluded ones. Their slots are those of the mention.
func (l List) Mentions() (all []Host) {
	excluded := l.excluded()
	for _, e := range l.entries {
		if e.kind == kindHost && !excluded[e.host.Name] {
			all = append(all, e.host)
		}
	}
	return all
}

// needsOthers is the error for a relative list without other hosts.
func (l List) needsOthers() error {
	for _, e := range l.entries {
		if e.kind == kindHost {
			continue
		}
		err := e.at.fault("it chooses from an allocation or a hostfile, and there is none; write the names of hosts")
		err.File = l.name
		return err
	}
	return &ParseError{File: l.name, Msg: "no host in it"}
}

// setDefaultSlots sets the slots of hosts without a count.
func (l List) setDefaultSlots(slots int) {
	for i := range l.entries {
		if h := &l.entries[i].host; h.Slots == 0 && !h.Auto && h.GPUs == 0 {
			h.Slots = slots
		}
	}
}

// CountCores gives one slot per core to each host that is listed once and without a count.
func (l List) CountCores() {
	mentions := map[identity]int{}
	for _, e := range l.entries {
		mentions[identity{e.host.Name, e.host.User, e.host.Port}]++
	}
	for i, e := range l.entries {
		h := &l.entries[i].host
		h.Auto = h.Auto || e.kind == kindHost && h.Slots == 0 && h.GPUs == 0 &&
			mentions[identity{h.Name, h.User, h.Port}] == 1
	}
}

func (l List) excluded() map[string]bool {
	names := map[string]bool{}
	for _, e := range l.entries {
		if e.kind == kindExclude {
			names[e.host.Name] = true
		}
	}
	return names
}

// without returns hosts without those that l excludes by name.
func (l List) without(hosts []Host) []Host {
	excluded := l.excluded()
	if len(excluded) == 0 {
		return hosts
	}
	var left []Host
	for _, h := range hosts {
		if !excluded[h.Name] {
			left = append(left, h)
		}
	}
	return left
}

// table collects hosts in order of first mention.
type table struct {
	list    []Host
	counted []bool           // whether a count was written or the host was named more than once, by index in list
	index   map[identity]int // index in list by identity
}

// identity identifies a host: mentions with equal identities are one host.
type identity struct {
	name, user string
	port       int
}

func newTable() *table { return &table{index: map[identity]int{}} }

// defaultSlots is the slots of a host without a count.
func (h Host) defaultSlots() int {
	switch {
	case h.Auto || h.GPUs == 0:
		return 1
	case h.MaxSlots > 0:
		return min(h.GPUs, h.MaxSlots)
	}
	return h.GPUs
}

// add appends h, or adds its slots to its earlier mention. All max_slots of a
// host's mentions apply, so the smallest counts. w is the position of h.
func (t *table) add(w word, h Host) *ParseError {
	counted := h.Slots != 0
	if h.Slots == 0 {
		h.Slots = h.defaultSlots()
	}
	id := identity{h.Name, h.User, h.Port}
	i, known := t.index[id]
	if known {
		first := t.list[i]
		if first.Auto != h.Auto {
			return w.fault("this host has a number of slots in one place and auto in another; write one of them")
		}
		if !h.Auto {
			h.Slots += first.Slots
		}
		h.GPUs += first.GPUs
		if h.MaxSlots == 0 || first.MaxSlots != 0 && first.MaxSlots < h.MaxSlots {
			h.MaxSlots = first.MaxSlots
		}
	}
	switch {
	case h.Slots > MaxSlots:
		return w.fault(fmt.Sprintf("the slots of this host add up to more than %d", MaxSlots))
	case h.GPUs > MaxSlots:
		return w.fault(fmt.Sprintf("the gpus of this host add up to more than %d", MaxSlots))
	case h.MaxSlots != 0 && h.Slots > h.MaxSlots:
		return w.fault(fmt.Sprintf("this host has %d slots, more than its max_slots of %d", h.Slots, h.MaxSlots))
	case known:
		t.list[i] = h
		t.counted[i] = true
		return nil
	case len(t.list) == MaxHosts:
		return w.fault(fmt.Sprintf("more than %d hosts", MaxHosts))
	}
	t.index[id] = len(t.list)
	t.list = append(t.list, h)
	t.counted = append(t.counted, counted)
	return nil
}
