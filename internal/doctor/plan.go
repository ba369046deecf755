package doctor

import (
	"slices"
	"time"
)

// Plan sets the time of each measurement. All hosts of an examination have the same plan.
type Plan struct {
	Level   string        `json:"level"`
	Speed   time.Duration `json:"speed"`   // time for each kernel on a machine of one host; 0: speeds are known
	Version time.Duration `json:"version"` // time to ask programs for their versions; 0: they are known
	Network time.Duration `json:"network"` // time for all turns, if no hosts share a machine
	Turn    time.Duration `json:"turn"`    // maximum time for a pair

	// Pairs are the only ones that meet, each alone if there is time for it; nil: all meet.
	Pairs [][2]int `json:"pairs"`
}

// Levels are the names of plans, shortest first.
func Levels() []string { return []string{"quick", "default", "long"} }

// NewPlan returns the plan of a level.
func NewPlan(level string) Plan {
	switch level {
	case "quick":
		return Plan{
			Level:   level,
			Speed:   150 * time.Millisecond,
			Version: 2 * time.Second,
			Network: 2500 * time.Millisecond,
			Turn:    500 * time.Millisecond,
		}
	case "long":
		return Plan{
			Level:   level,
			Speed:   3 * time.Second,
			Version: 10 * time.Second,
			Network: time.Minute,
			Turn:    2 * time.Second,
		}
	}
	return Plan{
		Level:   level,
		Speed:   400 * time.Millisecond,
		Version: 4 * time.Second,
		Network: 8 * time.Second,
		Turn:    800 * time.Millisecond,
	}
}

// Longest returns the longest time for versions, speeds and pairs, however many hosts share a
// machine.
func (p Plan) Longest() time.Duration { return maxVersions + maxSpeeds + sharedTimes*p.Network }

// Doubt lists the measurements for a second look.
type Doubt struct {
	Hosts    []string    // hosts whose facts or links are in doubt
	Linked   []string    // hosts whose links are in doubt
	Pairs    [][2]string // pairs whose link is in doubt
	Partial  [][2]string // pairs whose link is partly unknown
	Speeds   bool
	Versions bool
}

// Doubts returns the findings that chance may have caused and the measurements that were
// incomplete.
func Doubts(findings []Finding, m Measured) (d Doubt) {
	hosts := map[string]bool{}
	linked := map[string]bool{}
	pairs := map[[2]string]bool{} // those of d.Pairs
	doubt := func(pair [2]string) {
		if !pairs[pair] {
			pairs[pair] = true
			d.Pairs = append(d.Pairs, pair)
		}
	}
	for _, f := range findings {
		if !f.timing {
			continue
		}
		switch f.metric {
		case "link":
			if f.With != "" {
				doubt([2]string{f.Host, f.With})
			}
			continue
		case "network":
			continue // a host with incomplete links
		case "latency", "bandwidth", "loss", "clock", "mtu", "unreachable by others", "sends", "receives":
			linked[f.Host] = true
		case "memory speed", "cpu speed", "contention":
			d.Speeds = true
		}
		hosts[f.Host] = true
	}
	for _, name := range m.Names {
		h := m.Hosts[name]
		if h.Error != "" {
			continue
		}
		if h.Facts == nil || h.Facts.Unasked {
			d.Versions = true
			hosts[name] = true
		}
		if h.Speed == nil {
			d.Speeds = true
			hosts[name] = true
		}
		if hosts[name] {
			d.Hosts = append(d.Hosts, name)
		}
		if linked[name] {
			d.Linked = append(d.Linked, name)
		}
	}
	for _, l := range m.Links {
		switch pair := m.ends(l); {
		case l.Error != "" || l.Stalled != "":
			doubt(pair)
		case incomplete(l) && !pairs[pair]:
			d.Partial = append(d.Partial, pair)
		}
	}
	return d
}

// Numbers of a second look.
const (
	witnesses = 6    // hosts that a host in doubt meets again
	maxPairs  = 4000 // pairs that fit into an argument of a program; if more are in doubt, all pairs meet again
)

// Again returns the hosts of m that a second measurement of what is in doubt needs, in the order of
// their names, and the plan of that measurement for those of them that are alive.
func (p Plan) Again(d Doubt, m Measured) (hosts []string, plan func(alive []string) Plan) {
	var wanted, pairs [][2]string // the most important ones first
	for _, name := range d.Linked {
		for _, other := range m.witnesses(name, d.Linked) {
			wanted = append(wanted, [2]string{name, other})
		}
	}
	seen := map[[2]string]bool{} // two hosts in doubt may be witnesses of each other
	for _, pair := range slices.Concat(wanted, d.Pairs, d.Partial) {
		if !seen[sorted(pair)] {
			seen[sorted(pair)] = true
			pairs = append(pairs, pair)
		}
	}
	needed := map[string]bool{}
	for _, name := range d.Hosts {
		needed[name] = true
	}
	for _, pair := range pairs {
		needed[pair[0]] = true
		needed[pair[1]] = true
	}
	for _, name := range m.Names {
		if needed[name] && m.Hosts[name].Error == "" {
			hosts = append(hosts, name)
		}
	}
	return hosts, func(alive []string) Plan {
		again := p
		again.Pairs = [][2]int{}
		if !d.Speeds {
			again.Speed = 0
		}
		if !d.Versions {
			again.Version = 0
		}
		if len(pairs) > maxPairs {
			again.Pairs = nil
			return again
		}
		for _, pair := range pairs {
			b := slices.Index(alive, pair[1])
			if a := slices.Index(alive, pair[0]); a >= 0 && b >= 0 {
				again.Pairs = append(again.Pairs, [2]int{min(a, b), max(a, b)})
			}
		}
		return again
	}
}

// witnesses returns some hosts that a host has met, preferring those without doubt.
func (m Measured) witnesses(name string, doubted []string) (some []string) {
	var good, others []string
	for _, l := range m.Links {
		from := m.Names[l.From]
		to := m.Names[l.To]
		other := to
		switch name {
		case from:
		case to:
			other = from
		default:
			continue
		}
		if slices.Contains(doubted, other) {
			others = append(others, other)
		} else {
			good = append(good, other)
		}
	}
	for _, group := range [][]string{good, others} {
		for i := range group { // spread over all
			if len(some) == witnesses {
				return some
			}
			if step := max(len(group)/witnesses, 1); i%step == 0 {
				some = append(some, group[i])
			}
		}
	}
	return some
}

// incomplete reports whether part of a link's measurement is missing.
func incomplete(l Link) bool { return l.Error != "" || l.Sent[0] == 0 || l.Sent[1] == 0 }
