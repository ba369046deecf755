package doctor

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gorun/gorun/internal/prose"
)

// Severity is the weight of a finding.
type Severity string

// Severities.
const (
	Warning Severity = "warning"
	Bad     Severity = "bad"
)

// Finding is something wrong with a host, or with the link between two.
type Finding struct {
	Host     string   `json:"host"`
	With     string   `json:"with,omitempty"` // the other host of a link
	Severity Severity `json:"severity"`
	// login, clock, shm, disk, limits, cpu, memory, versions, speed, latency, bandwidth, loss, ...
	Kind   string  `json:"kind"`
	Text   string  `json:"text"`
	Times  float64 `json:"times,omitempty"` // ratio of the value to that of the others
	Sigma  float64 `json:"sigma,omitempty"` // distance from the others in their standard deviations
	Fix    string  `json:"fix,omitempty"`
	timing bool    // whether chance may cause the finding, so that a second look must confirm it
	metric string  // what was timed: Kind, or without "than before: " for a comparison with a baseline
	better bool    // whether the better values of both looks decide
}

// about returns a finding about a host.
func about(host string, s Severity, kind, fix, format string, args ...any) Finding {
	return Finding{
		Host:     host,
		Severity: s,
		Kind:     kind,
		Text:     fmt.Sprintf(format, args...),
		Fix:      fix,
	}
}

// than adds how far off a value is: the ratio to that of the others, and the distance in their
// standard deviations.
func (f Finding) than(times, sigma float64) Finding {
	f.Times = times
	f.Sigma = sigma
	return f
}

// sinceBaseline makes the finding one about what is worse than in the baseline.
func (f Finding) sinceBaseline() Finding {
	f.metric = f.Kind
	f.Kind = thanBefore + f.Kind
	return f
}

// key identifies the subject of a finding.
func (f Finding) key() string { return f.Host + "\x00" + f.With + "\x00" + f.Kind }

// NeedsSecondLook reports whether some finding depends on timing, or a link could not be measured
// in its time.
func NeedsSecondLook(findings []Finding, m Measured) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.timing }) ||
		slices.ContainsFunc(m.Links, incomplete)
}

// Confirm returns the findings about the better values of two looks, and those of the second look
// that do not depend on timing, or that the first look had too. m is what both looks found. Where
// the probes themselves waited for cores, what they say of links proves nothing: one warning says
// so.
func Confirm(first, second []Finding, m Measured) (confirmed []Finding) {
	seen := map[string]bool{}
	for _, f := range first {
		seen[f.key()] = true
	}
	var unproven []string
	for _, f := range second {
		switch {
		case f.timing && !f.better && !seen[f.key()]:
		case f.ofLinks() && m.crowded(f):
			if !slices.Contains(unproven, f.Host) {
				unproven = append(unproven, f.Host)
			}
		default:
			confirmed = append(confirmed, f)
		}
	}
	if len(unproven) > 0 {
		confirmed = append(confirmed, about("", Warning, "busy probes", "examine these hosts when less runs there",
			"other programs kept the cores from the probes, so nothing is known of the network of %s",
			prose.List(unproven)))
		order(confirmed, m.Names)
	}
	return confirmed
}

// ofLinks reports whether a finding is about how well hosts exchange data.
func (f Finding) ofLinks() bool {
	return f.timing && slices.Contains([]string{"link", "latency", "bandwidth", "loss", "mtu", "unreachable by others",
		"sends", "receives"}, f.metric)
}

// isSpeed reports whether a finding is about how fast hosts exchange data, not whether they do.
func (f Finding) isSpeed() bool {
	return f.Times > 0 || slices.Contains([]string{"latency", "bandwidth", "sends", "receives"}, f.metric)
}

// crowded reports whether a probe waited for a core at most links of a finding, or had its cores
// for less than half of the time when it measured its host's speed. A probe that waits for a
// quarter of the time measures a speed that is lower by as much, which would count. No wait
// explains a host that is many times slower, or a rate that a fraction of a core exchanges.
func (m Measured) crowded(f Finding) bool {
	most := crowdedShare
	if f.isSpeed() && !f.isFar() && (!f.isRate() || m.needsCores()) {
		most = crowdedShare / 2
		if m.starved(f.Host) || m.starved(f.With) {
			return true
		}
	}
	all := 0
	waited := 0
	for _, l := range m.Links {
		ends := m.ends(l)
		if l.Doubted || !slices.Contains(ends[:], f.Host) || f.With != "" && !slices.Contains(ends[:], f.With) {
			continue
		}
		if all++; l.Busy > most {
			waited++
		}
	}
	return waited*2 > all
}

// starved reports whether other programs kept a host's probe from its cores.
func (m Measured) starved(host string) bool {
	h := m.Hosts[host]
	return h.Speed != nil && h.Speed.Share > 0 && h.Speed.Share < crowdedShare && (h.Facts == nil || h.Facts.Quota == 0)
}

// isRate reports whether a finding is about bytes per second.
func (f Finding) isRate() bool {
	return slices.Contains([]string{"bandwidth", "sends", "receives"}, f.metric)
}

// needsCores reports whether the links are so fast that a probe needs most of a core to fill one.
func (m Measured) needsCores() bool {
	const ofLittleWork = 200e6 // bytes per second, for which a tenth of a core is enough
	var rates []float64
	for _, l := range m.Links {
		if !l.Doubted && l.Error == "" {
			rates = append(rates, l.Out, l.In)
		}
	}
	return median(rates) > ofLittleWork
}

// isFar reports whether a speed differs by more than a probe's wait for a core explains.
func (f Finding) isFar() bool {
	const explained = 3
	return f.Times >= explained || f.Times > 0 && f.Times <= 1.0/explained
}

// crowdedShare is the part of the time of a measurement for which a probe may wait for a core.
const crowdedShare = 0.5

// order sorts findings: bad hosts first, then by the hosts' order.
func order(findings []Finding, names []string) {
	place := map[string]int{}
	for i, n := range names {
		place[n] = i
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(place[a.Host], place[b.Host]),
			cmp.Compare(place[a.With], place[b.With]),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Text, b.Text))
	})
}

// BadHosts are the hosts that a job should leave out, in the order of names. Of bad links between
// good hosts, they are the hosts at the end of most, and of a single one the second: a host that
// says so of several others, which have one each, has none of them left out.
func BadHosts(findings []Finding, names []string) (bad []string) {
	out := map[string]bool{}
	for _, f := range findings {
		if f.Severity == Bad && f.With == "" {
			out[f.Host] = true
		}
	}
	ends := map[string][]string{} // the other ends of a host's bad links
	left := map[string]int{}      // the number of those that are not left out
	for _, f := range findings {
		if f.Severity == Bad && f.With != "" && !out[f.Host] && !out[f.With] {
			for _, pair := range [][2]string{{f.Host, f.With}, {f.With, f.Host}} {
				ends[pair[0]] = append(ends[pair[0]], pair[1])
				left[pair[0]]++
			}
		}
	}
	for {
		worst := ""
		for _, n := range names {
			if !out[n] && left[n] > 0 && left[n] >= left[worst] {
				worst = n
			}
		}
		if worst == "" {
			break
		}
		out[worst] = true
		for _, other := range ends[worst] {
			left[other]--
		}
	}
	for _, n := range names {
		if out[n] {
			bad = append(bad, n)
		}
	}
	return bad
}
