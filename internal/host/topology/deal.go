package topology

import (
	"cmp"
	"slices"
)

// place is what a rank is given: where it is, and the hardware threads that it is bound to.
type place struct {
	at    CPU // the first thread of its first core
	cores int // the position of that core among all
	bound Set
}

// unitRoom is a unit of a machine, and its cores, or threads, that no rank has yet.
type unitRoom struct {
	all, free []Machine
}

// deal gives ranks to the units of p.Over, one each in turn, or p.Fill to each before the next. A
// unit without room for another rank is passed over.
func (m Machine) deal(p Policy, ranks int) ([]Set, error) {
	grain := min(p.Unit, Core)
	each := max(p.Each, 1)
	parts := m.split(grain)
	position := map[int]int{} // positions of parts, by first thread
	for i, part := range parts {
		position[part[0].ID] = i
	}
	var rooms []unitRoom
	for _, unit := range m.split(p.Over) {
		all := unit.split(grain)
		rooms = append(rooms, unitRoom{all, all})
	}
	whole := map[int]Set{}
	for _, part := range m.split(p.Unit) {
		whole[p.Unit.of(part[0])] = part.ids()
	}
	places := make([]place, ranks)
	next := 0 // the room where the search begins
	for i := range places {
		if p.Fill > 0 {
			next = i / p.Fill
		}
		var taken Machine
		for tried := 0; taken == nil && tried < len(rooms); tried++ {
			taken = rooms[(next+tried)%len(rooms)].take(p, each)
			if taken != nil {
				next += tried + 1
			}
		}
		if taken == nil && p.Overload && len(rooms) > 0 {
			r := &rooms[next%len(rooms)]
			r.free = r.all
			taken = r.take(p, min(each, len(r.all)))
			next++
		}
		if taken == nil {
			return nil, &FewError{
				Ranks: ranks,
				Each:  each,
				Have:  len(parts),
				Unit:  grain,
				Over:  p.Over,
			}
		}
		places[i] = place{at: taken[0], cores: position[taken[0].ID], bound: taken.ids()}
		if p.Unit > Core {
			places[i].bound = whole[p.Unit.of(taken[0])]
		}
	}
	number(places, p.Number)
	bound := make([]Set, ranks)
	for i, place := range places {
		bound[i] = place.bound
	}
	return bound, nil
}

// take removes the cores of a rank from the room: of the smaller unit that ranks are bound to the
// emptiest one's, else neighbours of one NUMA node, or else of one socket. It returns nil if there
// is no room.
func (r *unitRoom) take(p Policy, each int) Machine {
	if len(r.free) < each {
		return nil
	}
	chosen := r.free[:each]
	if p.Unit > Core && p.Unit < p.Over {
		free := map[int][]Machine{}
		for _, part := range r.free {
			unit := p.Unit.of(part[0])
			free[unit] = append(free[unit], part)
			if len(free[unit]) > len(free[p.Unit.of(chosen[0][0])]) {
				chosen = free[unit]
			}
		}
		chosen = free[p.Unit.of(chosen[0][0])]
		chosen = chosen[:min(each, len(chosen))]
	} else {
		for _, within := range []Unit{Node, Socket} {
			if block := firstBlock(r.free, each, within); block != nil {
				chosen = block
				break
			}
		}
	}
	r.free = slices.DeleteFunc(slices.Clone(r.free), func(part Machine) bool {
		return slices.ContainsFunc(chosen, func(c Machine) bool { return c[0].ID == part[0].ID })
	})
	return slices.Concat(chosen...)
}

// firstBlock returns the first neighbours of one unit, or nil.
func firstBlock(parts []Machine, each int, within Unit) []Machine {
	for i := 0; i+each <= len(parts); i++ {
		if within.of(parts[i][0]) == within.of(parts[i+each-1][0]) {
			return parts[i : i+each]
		}
	}
	return nil
}

// number orders places: by their cores, or one on each unit in turn. 0 leaves them.
func number(places []place, by Unit) {
	if by == 0 {
		return
	}
	byCore := func(a, b place) int { return cmp.Compare(a.cores, b.cores) }
	slices.SortStableFunc(places, byCore)
	if by <= Core {
		return
	}
	turn := map[int]int{}
	seen := map[int]int{} // by first core, of each place: how many of its unit come before it
	for _, p := range places {
		turn[p.cores] = seen[by.of(p.at)]
		seen[by.of(p.at)]++
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(turn[a.cores], turn[b.cores]) })
}
