package topology

import (
	"fmt"
	"strings"
)

// Cores returns the part of m with the cores of a list such as 4,0-3, in the order of the list. A
// core that m lacks is an error.
func (m Machine) Cores(list string) (Machine, error) {
	var chosen Machine
	taken := map[int]bool{}
	for item := range strings.SplitSeq(list, ",") {
		span, err := ParseSet(item)
		if err != nil || len(span) == 0 {
			return nil, fmt.Errorf("%q is no list of cores such as 0-3,8", list)
		}
		for _, core := range span {
			part := m.ofCore(core)
			if len(part) == 0 {
				return nil, fmt.Errorf("there is no core %d to use; there are %s", core, m.cores().named("core"))
			}
			if !taken[core] {
				chosen = append(chosen, part...)
			}
			taken[core] = true
		}
	}
	return chosen, nil
}

// Pick returns the hardware threads of the cores that a line of a rankfile names: 0-3,8 are cores
// of the machine, and after 1: those of socket 1, until the next colon; * is all of them.
func (m Machine) Pick(text string) (Set, error) {
	var picked Set
	sockets := ""
	for item := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ';' }) {
		cores := item
		if before, after, given := strings.Cut(item, ":"); given {
			sockets = before
			cores = after
		}
		among, err := m.sockets(sockets)
		if err != nil {
			return nil, err
		}
		if cores == "*" {
			picked = append(picked, among.ids()...)
			continue
		}
		span, err := ParseSet(cores)
		if err != nil || len(span) == 0 {
			return nil, fmt.Errorf("%q is no list such as 0-3, or 1:0-3 for the cores of socket 1", text)
		}
		for _, n := range span {
			part := among.ofCore(n)
			if sockets != "" {
				part = among.nth(n)
			}
			if len(part) == 0 {
				return nil, fmt.Errorf("there is no core %d to use for %q", n, text)
			}
			picked = append(picked, part.ids()...)
		}
	}
	if len(picked) == 0 {
		return nil, fmt.Errorf("%q names no core", text)
	}
	return picked.sorted(), nil
}

// sockets returns the part of m in the sockets of a list; "" and * are all.
func (m Machine) sockets(list string) (among Machine, err error) {
	if list == "" || list == "*" {
		return m, nil
	}
	span, err := ParseSet(list)
	if err != nil || len(span) == 0 {
		return nil, fmt.Errorf("%q is no number of a socket", list)
	}
	for _, c := range m {
		if span.Has(c.Socket) {
			among = append(among, c)
		}
	}
	if len(among) == 0 {
		return nil, fmt.Errorf("there is no core to use in %s", span.named("socket"))
	}
	return among, nil
}

func (m Machine) ofCore(core int) (part Machine) {
	for _, c := range m {
		if c.Core == core {
			part = append(part, c)
		}
	}
	return part
}

// nth returns the core at a position in m, none if there are fewer.
func (m Machine) nth(n int) Machine {
	if parts := m.split(Core); n < len(parts) {
		return parts[n]
	}
	return nil
}

// cores returns the numbers of the cores of m.
func (m Machine) cores() (cores Set) {
	for _, c := range m {
		cores = append(cores, c.Core)
	}
	return cores.sorted()
}

// Count returns how many units of a kind m has.
func (m Machine) Count(u Unit) int { return len(m.split(u)) }
