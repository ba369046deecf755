package doctor

import (
	"slices"
	"strings"
	"time"
)

// Plan says how long each host measures. All hosts of an examination have the same.
type Plan struct {
	Level   string        `json:"level"`
	Speed   time.Duration `json:"speed"`   // of each kernel; 0: speeds are known
	Rounds  int           `json:"rounds"`  // of the tournament, in each of which a host meets another one
	Round   time.Duration `json:"round"`   // length of a round
	Version time.Duration `json:"version"` // for asking programs which version they are; 0: they are known

	// Only leaves out other pairs of hosts, and rounds without any; nil: all pairs meet.
	Only *Selection `json:"only,omitempty"`
}

// Selection is pairs of hosts: all of some hosts, and others.
type Selection struct {
	Hosts []int    `json:"hosts,omitempty"`
	Pairs [][2]int `json:"pairs,omitempty"`
}

// Wants reports whether two hosts shall meet.
func (p Plan) Wants(a, b int) bool {
	return p.Only == nil || slices.Contains(p.Only.Hosts, a) || slices.Contains(p.Only.Hosts, b) || slices.Contains(p.Only.Pairs, [2]int{min(a, b), max(a, b)})
}

// Schedule returns the rounds in which some of n hosts shall meet. All hosts have the same.
func (p Plan) Schedule(n int) (rounds []int) {
	for round := range p.Rounds {
		for me := range n {
			if other := p.Opponent(round, me, n); other > me && p.Wants(me, other) {
				rounds = append(rounds, round)
				break
			}
		}
	}
	return rounds
}

// Levels are the names of plans, shortest first.
func Levels() []string { return []string{"quick", "default", "long"} }

// NewPlan returns the plan of a level for a number of hosts. The network takes a bounded time: with many hosts, each one meets only some.
func NewPlan(level string, hosts int) Plan {
	p := Plan{Level: level, Speed: 400 * time.Millisecond, Version: 4 * time.Second}
	budget, least, most := 8*time.Second, 120*time.Millisecond, 800*time.Millisecond
	switch level {
	case "quick":
		p.Speed, p.Version = 150*time.Millisecond, 2*time.Second
		budget, most = 2500*time.Millisecond, 500*time.Millisecond
	case "long":
		p.Speed, p.Version = 3*time.Second, 10*time.Second
		budget, most = 60*time.Second, 2*time.Second
	}
	if p.Rounds = rounds(hosts); p.Rounds == 0 {
		return p
	}
	p.Rounds = min(p.Rounds, int(budget/least))
	p.Round = min(budget/time.Duration(p.Rounds), most)
	return p
}

// maxPairs bounds the pairs of a selection; with more all pairs meet again.
const maxPairs = 500

// Again returns the plan of a second look at hosts with these names: only at what is in doubt, with twice the time for each pair. m is what
// the first look found.
func (p Plan) Again(findings []Finding, m Measured, names []string) Plan {
	p.Round *= 2
	p.Only = &Selection{}
	speeds, all, unasked := false, false, false
	for _, f := range findings {
		if !f.timing {
			continue
		}
		switch kind := strings.TrimPrefix(f.Kind, "than before: "); kind {
		case "memory speed", "cpu speed", "contention":
			speeds = true
		case "link":
			p.Only.add(slices.Index(names, f.Host), slices.Index(names, f.With))
		case "latency", "bandwidth", "loss", "clock", "mtu", "unreachable by others", "sends", "receives":
			if i := slices.Index(names, f.Host); i >= 0 {
				p.Only.Hosts = append(p.Only.Hosts, i)
			}
		case "network":
			all = true
		}
	}
	for _, l := range m.Links {
		if incomplete(l) {
			p.Only.add(slices.Index(names, m.Names[l.From]), slices.Index(names, m.Names[l.To]))
		}
	}
	for _, name := range names {
		f := m.Hosts[name].Facts
		unasked = unasked || f == nil || f.Unasked
		speeds = speeds || m.Hosts[name].Speed == nil
	}
	if !speeds {
		p.Speed = 0
	}
	if !unasked {
		p.Version = 0
	}
	if p.Only.Hosts = slices.Compact(slices.Sorted(slices.Values(p.Only.Hosts))); all || len(p.Only.Pairs) > maxPairs || len(p.Only.Hosts)*2 > len(names) {
		p.Only = nil
	}
	return p
}

func (s *Selection) add(a, b int) {
	if a >= 0 && b >= 0 {
		s.Pairs = append(s.Pairs, [2]int{min(a, b), max(a, b)})
	}
}

// incomplete reports whether a link could not be measured whole.
func incomplete(l Link) bool { return l.Error != "" || l.Sent[0] == 0 || l.Sent[1] == 0 }

// Network is how long all rounds of n hosts take.
func (p Plan) Network(n int) time.Duration { return time.Duration(len(p.Schedule(n))) * p.Round }

// rounds is in how many rounds of disjoint pairs every one of n hosts meets every other.
func rounds(n int) int {
	if n < 2 {
		return 0
	}
	return n - 1 + n%2
}

// Opponent returns which of n hosts the host me meets in a round, or -1 if it rests. Rounds of a plan that has fewer than all are spread
// over the tournament. It is the circle method: the last host stands still, and the others turn.
func (p Plan) Opponent(round, me, n int) int {
	all := rounds(n)
	round = round * all / max(p.Rounds, 1)
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
