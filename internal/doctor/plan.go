package doctor

import "time"

// Plan says how long each host measures. All hosts of an examination have the same.
type Plan struct {
	Level   string        `json:"level"`
	Speed   time.Duration `json:"speed"`   // of each kernel
	Rounds  int           `json:"rounds"`  // of the tournament, in each of which a host meets another one
	Round   time.Duration `json:"round"`   // length of a round
	Version time.Duration `json:"version"` // for asking programs which version they are
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

// Again returns the plan of a second look, with twice the time for each pair.
func (p Plan) Again() Plan {
	p.Round *= 2
	return p
}

// Network is how long all rounds take.
func (p Plan) Network() time.Duration { return time.Duration(p.Rounds) * p.Round }

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
