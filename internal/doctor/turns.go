package doctor

import "time"

// Machine is the machine of a host. Hosts of one machine, such as containers, take turns, so that
// they do not disturb each other's measurements.
type Machine struct {
	ID    string // id of a shared machine; "": none
	Cores int
	Agent Process // the host's agent on this machine: what runs below it belongs to the examination
}

// Timetable lists the pairs of hosts that meet at the same time.
type Timetable struct {
	Turns [][][2]int // pairs by turn, each with the lower host first
	Turn  time.Duration
}

// Length is that of all turns.
func (t Timetable) Length() time.Duration { return time.Duration(len(t.Turns)) * t.Turn }

// Numbers of turns.
const (
	fairTurn  = 120 * time.Millisecond // minimum turn of a pair on different machines
	shortTurn = 10 * time.Millisecond  // minimum turn of any pair
	// times the length for hosts on machines of their own, at most, for hosts that share machines
	sharedTimes = 3

	shortSpeed = 40 * time.Millisecond // time for a kernel on a machine of many hosts
	setUp      = 60 * time.Millisecond
	maxSpeeds  = 15 * time.Second

	maxVersions  = 15 * time.Second
	askedAtATime = 4 // hosts per core of their machine for which the time for versions suffices
)

// Timetable returns the turns of hosts on these machines. All hosts get the same one.
func (p Plan) Timetable(machines []Machine) Timetable {
	var t Timetable
	if p.Pairs != nil {
		// Each alone, or as few at a time as there is time for.
		most := max(int(p.Network/fairTurn), 1)
		for lanes := 1; ; lanes *= 2 {
			t.Turns = pack(nil, p.Pairs, machines, lanes)
			if len(t.Turns) <= most || lanes > len(p.Pairs) {
				break
			}
		}
		t.Turns = t.Turns[:min(len(t.Turns), most)]
	} else {
		n := len(machines)
		all := rounds(n)
		used := min(all, int(p.Network/fairTurn))
		for i := range used { // spread over the tournament
			var pairs [][2]int
			for me := range n {
				if other := partner(i*all/used, me, n); other > me {
					pairs = append(pairs, [2]int{me, other})
				}
			}
			t.Turns = append(t.Turns, pack(nil, pairs, machines, n)...)
		}
	}
	if len(t.Turns) == 0 {
		return t
	}
	if most := int(sharedTimes * p.Network / shortTurn); len(t.Turns) > most {
		for i := range most {
			t.Turns[i] = t.Turns[i*len(t.Turns)/most]
		}
		t.Turns = t.Turns[:most]
	}
	n := time.Duration(len(t.Turns))
	t.Turn = min(max(p.Network/n, min(fairTurn, sharedTimes*p.Network/n)), p.Turn)
	return t
}

// pack appends pairs to turns such that in a turn no host is in two pairs, no machine has more
// hosts than cores if one pair has room, and there are no more pairs than lanes.
func pack(turns [][][2]int, pairs [][2]int, machines []Machine, lanes int) [][][2]int {
	type load struct {
		hosts map[int]bool
		on    map[string]int
	}
	var loads []load
	open := 0 // first turn with room for a pair
	for _, pair := range pairs {
		for i := open; ; i++ {
			if i == len(turns) {
				turns = append(turns, nil)
				loads = append(loads, load{map[int]bool{}, map[string]int{}})
			}
			l := loads[i]
			if l.hosts[pair[0]] || l.hosts[pair[1]] || !room(l.on, machines, pair) {
				continue
			}
			turns[i] = append(turns[i], pair)
			for _, host := range pair {
				l.hosts[host] = true
				l.on[machines[host].ID]++
			}
			for open < len(turns) && len(turns[open]) >= lanes {
				open++
			}
			break
		}
	}
	return turns
}

// room reports whether the machines of a pair have cores for it.
func room(on map[string]int, machines []Machine, pair [2]int) bool {
	for _, host := range pair {
		m := machines[host]
		needs := 1
		if machines[pair[0]].ID == machines[pair[1]].ID {
			needs = 2
		}
		if m.ID != "" && on[m.ID]+needs > max(m.Cores, needs) {
			return false
		}
	}
	return true
}

// Versions is the time that a host has for asking programs which version they are, while the others
// of its machine do so too.
func (p Plan) Versions(machines []Machine, me int) time.Duration {
	hosts := 0
	for _, m := range machines {
		if m.ID != "" && m.ID == machines[me].ID {
			hosts++
		}
	}
	return max(p.Version, min(p.Version*time.Duration(hosts)/time.Duration(askedAtATime*max(machines[me].Cores, 1)),
		maxVersions))
}

// SpeedTurn returns when a host measures its speed, for how long each kernel runs, and when the
// last host of its machine ends.
func (p Plan) SpeedTurn(machines []Machine, me int) (start, kernel, end time.Duration) {
	place := 0
	hosts := 0
	for i, m := range machines {
		if i == me || m.ID != "" && m.ID == machines[me].ID {
			if i < me {
				place++
			}
			hosts++
		}
	}
	if kernel = p.Speed; hosts > 1 {
		kernel = min(max(2*p.Speed/time.Duration(hosts), shortSpeed), p.Speed)
	}
	step := min(2*kernel+setUp, maxSpeeds/time.Duration(hosts))
	return time.Duration(place) * step, kernel, time.Duration(hosts) * step
}

// rounds returns the number of rounds of disjoint pairs in which every one of n hosts meets every
// other.
func rounds(n int) int {
	if n < 2 {
		return 0
	}
	return n - 1 + n%2
}

// partner returns which of n hosts the host me meets in a round, or -1 if it rests. It is the
// circle method: the last host stands still, and the others turn.
func partner(round, me, n int) int {
	even := n + n%2
	last := even - 1
	other := last
	switch {
	case me == last:
		// The one that would meet itself meets the last.
		other = round * even / 2 % last
	default:
		if other = ((round-me)%last + last) % last; other == me {
			other = last
		}
	}
	if other >= n {
		return -1
	}
	return other
}
