package topology

import (
	"fmt"
	"slices"

	"github.com/gorun/gorun/internal/prose"
)

// Unit is the kind of CPU set that a rank is bound to.
type Unit int

// The units, smallest first.
const (
	Thread Unit = iota + 1
	Core
	L2
	L3
	Node
	Socket
	Whole // the whole machine, as far as ranks may use it
)

// Units returns the units that ranks can be bound to by their names on the command line and in
// messages.
func Units() map[string]Unit {
	return map[string]Unit{"hwthread": Thread, "core": Core, "l2cache": L2, "l3cache": L3, "numa": Node,
		"socket": Socket, "cpu-list": Whole}
}

func (u Unit) String() string {
	switch u {
	case Thread:
		return "hardware thread"
	case Core:
		return "core"
	case L2:
		return "L2 cache"
	case L3:
		return "L3 cache"
	case Node:
		return "NUMA node"
	case Socket:
		return "socket"
	}
	return "machine"
}

// of returns the number of the unit that contains a hardware thread.
func (u Unit) of(c CPU) int {
	switch u {
	case Thread:
		return c.ID
	case Core:
		return c.Core
	case L2:
		return c.L2
	case L3:
		return c.L3
	case Node:
		return c.Node
	case Socket:
		return c.Socket
	}
	return 0
}

// Policy is how ranks are bound.
type Policy struct {
	Unit     Unit
	Each     int  // cores per rank, or hardware threads if Unit is Thread; 0 means 1
	Overload bool // ranks may share units
	Over     Unit // ranks are dealt to these units; 0: neighbours stay together
	Fill     int  // ranks that a unit of Over gets before the next one; 0: one each in turn
	// ranks are numbered in the order of cores (Core), or one on each of these units in turn; 0: as
	// they are dealt
	Number Unit
}

// FewError reports that a machine has fewer cores, or hardware threads, than its ranks need.
type FewError struct {
	Ranks, Each, Have int
	Unit              Unit // Core or Thread
	Over              Unit // the cores of a rank must lie in one of these units; 0: anywhere
}

// Hold returns how many ranks the machine can hold.
func (e *FewError) Hold() int {
	if e.Ranks*e.Each <= e.Have { // enough cores, but too few units that hold a rank
		return e.Ranks - 1
	}
	return e.Have / e.Each
}

func (e *FewError) Error() string {
	who := prose.Count(e.Ranks, "rank") + " need"
	switch {
	case e.Ranks == 1:
		who += "s"
	case e.Each > 1:
		who = fmt.Sprintf("%s, %s each, need", prose.Count(e.Ranks, "rank"), prose.Count(e.Each, e.Unit.String()))
	}
	if e.Ranks*e.Each <= e.Have {
		return fmt.Sprintf("%s, %s each, do not fit into its %ss", prose.Count(e.Ranks, "rank"),
			prose.Count(e.Each, e.Unit.String()), e.Over)
	}
	return fmt.Sprintf("%s %s, and there %s", who, prose.Count(e.Ranks*e.Each, e.Unit.String()), are(e.Have))
}

// Bind returns the hardware threads of each rank of a host, in rank order. Without Over,
// neighbouring ranks fill a NUMA node and a socket before the next: with Core or Thread each rank
// gets Each units from one NUMA node, or at least from one socket, if that leaves room for all
// ranks; with larger units, ranks are spread in proportion to cores. The error is a *[FewError]. It
// is pure.
func (m Machine) Bind(p Policy, ranks int) ([]Set, error) {
	if p.Over != 0 {
		return m.deal(p, ranks)
	}
	grain := min(p.Unit, Core)
	parts := m.split(grain)
	each := max(p.Each, 1)
	if len(parts) == 0 || len(parts) < ranks*each && !p.Overload {
		return nil, &FewError{
			Ranks: ranks,
			Each:  each,
			Have:  len(parts),
			Unit:  grain,
		}
	}
	bound := make([]Set, ranks)
	if p.Unit > Core {
		whole := map[int]Set{}
		for _, part := range m.split(p.Unit) {
			whole[p.Unit.of(part[0])] = part.ids()
		}
		for i := range bound {
			bound[i] = whole[p.Unit.of(parts[i*len(parts)/ranks][0])]
		}
		return bound, nil
	}
	blocks := blocks(parts, each, ranks)
	for i := range bound {
		bound[i] = blocks[i%len(blocks)].ids()
	}
	return bound, nil
}

// blocks cuts parts into blocks of a size: inside NUMA nodes if that makes enough blocks for all
// ranks, else inside sockets, else anywhere.
func blocks(parts []Machine, each, ranks int) []Machine {
	for _, within := range []Unit{Node, Socket} {
		if b := cut(parts, each, within.of); len(b) >= ranks {
			return b
		}
	}
	b := cut(parts, each, func(CPU) int { return 0 })
	if len(b) == 0 { // one rank needs more than the machine has and gets all of it
		b = []Machine{slices.Concat(parts...)}
	}
	return b
}

// cut returns blocks of neighbours with the same location.
func cut(parts []Machine, each int, place func(CPU) int) (blocks []Machine) {
	for len(parts) >= each {
		if place(parts[0][0]) != place(parts[each-1][0]) {
			parts = parts[1:]
			continue
		}
		blocks = append(blocks, slices.Concat(parts[:each]...))
		parts = parts[each:]
	}
	return blocks
}

// split divides the machine into its units, in order.
func (m Machine) split(u Unit) (parts []Machine) {
	index := map[int]int{}
	for _, c := range m {
		i, known := index[u.of(c)]
		if !known {
			i = len(parts)
			index[u.of(c)] = len(parts)
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], c)
	}
	return parts
}

func (m Machine) ids() (ids Set) {
	for _, c := range m {
		ids = append(ids, c.ID)
	}
	return ids.sorted()
}

func are(n int) string {
	if n == 1 {
		return "is 1"
	}
	return fmt.Sprintf("are %d", n)
}
