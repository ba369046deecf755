package doctor

import (
	"fmt"
	"math"
	"slices"

	"github.com/gorun/gorun/internal/prose"
)

// pairing sums up the links of one host by peer, from its own view.
type pairing struct {
	rtt, out, in, offset []float64
	lossOut, lossIn      []float64 // shares of retransmitted segments
	resent               int64
	far, lost            float64 // medians of rtt and of the losses in the worse direction
	sends, gets          float64 // bandwidth over the better half of its links, so that one bad peer does not count
	detours              int     // number of peers to which it sends by another interface than they reach
	into, back           string  // interfaces of one such peer
	failed, stalled, met int
	why                  string // error of a failed link
}

// views turns the links into each host's own view.
func (j *judge) views() []pairing {
	views := make([]pairing, len(j.Names))
	for _, l := range j.Links {
		if l.Doubted {
			continue
		}
		for side, at := range []int{l.From, l.To} {
			v := &views[at]
			v.met++
			if side == 1 && l.Into != "" && l.Back != "" && l.Into != l.Back {
				v.detours++
				v.into = l.Into
				v.back = l.Back
			}
			switch {
			case l.Error != "":
				v.failed++
				v.why = l.Error
				continue
			case l.Stalled != "":
				v.stalled++
			}
			if l.RTT > 0 {
				offset := l.Offset
				if side == 0 {
					offset = -offset
				}
				v.rtt = append(v.rtt, l.RTT)
				v.offset = append(v.offset, offset)
			}
			if l.Stalled != "" {
				continue
			}
			// A round may be too short for all of it.
			for way, rate := range []float64{pick(side == 0, l.Out, l.In), pick(side == 0, l.In, l.Out)} {
				by := (side + way) % 2 // host that sends in this direction
				rates := &v.out
				losses := &v.lossOut
				if way == 1 {
					rates = &v.in
					losses = &v.lossIn
				}
				if rate > 0 {
					*rates = append(*rates, rate)
				}
				if l.Sent[by] > 0 {
					*losses = append(*losses, share(l.Resent[by], l.Sent[by]))
				}
			}
			v.resent += l.Resent[0] + l.Resent[1]
		}
	}
	for i := range views {
		v := &views[i]
		v.far = median(v.rtt)
		v.lost = max(median(v.lossOut), median(v.lossIn))
		v.sends = middle(v.out, true)
		v.gets = middle(v.in, true)
	}
	return views
}

func pick(first bool, a, b float64) float64 {
	if first {
		return a
	}
	return b
}

func share(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// Numbers of the network that count as trouble.
const (
	clockWarn = 0.05
	clockBad  = 1.0  // seconds
	farTimes  = 3.0  // ratio to the others' round-trip time
	farLeast  = 1e-3 // seconds
	lossWarn  = 0.002
	lossBad   = 0.005
	lossLeast = 10 // segments
	// rateSigma is the deviations of bandwidth, which varies more than other numbers, so that its
	// spread is wide already (Iglewicz and Hoaglin, 1993).
	rateSigma = 3.5
)

// network finds hosts, and else links, that are slower than the others.
func (j *judge) network() {
	if alone := j.those(func(h Host) bool { return h.Alone }); len(alone) > 0 {
		j.is("", Warning, "network", "examine them again, or fewer hosts at once",
			"nothing is known of the network of %s: others did not come to meet them in time", prose.List(alone))
	}
	views := j.views()
	if j.overwhelmed(views) {
		return
	}
	blamed := map[int]bool{}
	for i, v := range views {
		if v.met == 0 {
			continue
		}
		before := len(j.findings)
		j.reached(i, v)
		if v.detours > 0 {
			j.is(j.Names[i], Warning, "routes",
				"make the routes alike, or choose the network: ip route get ADDRESS, --network-interface",
				"its routes are asymmetric: %s of %d reach it by %s, and it sends to them by %s",
				prose.Count(v.detours, "host"), v.met, v.into, v.back)
		}
		if v.failed*2 <= v.met {
			j.clock(i, v, views)
			j.latency(i, v, views)
			j.loss(i, v, views)
			j.bandwidth(i, v, views)
		}
		blamed[i] = len(j.findings) > before
	}
	j.links(views, blamed)
}

// overwhelmed adds a finding and returns true if too many pairs ran out of time to blame any host,
// though others were measured: all hosts are busy, or share a machine.
func (j *judge) overwhelmed(views []pairing) bool {
	failed := 0
	hosts := 0
	for _, l := range j.Links {
		if l.Error != "" {
			failed++
		}
	}
	for _, v := range views {
		if v.failed*2 > v.met {
			hosts++
		}
	}
	if failed == len(j.Links) || failed*4 <= len(j.Links) || hosts*2 <= len(views) || len(views) < 5 {
		return false
	}
	j.timed(about("", Warning, "network", "examine fewer hosts at once, or take more time: gorun doctor --long",
		"%d of %d pairs could not be measured in their time: the hosts are too busy, or share a machine", failed,
		len(j.Links)))
	return true
}

// reached judges whether others reach a host, and with large messages.
func (j *judge) reached(i int, v pairing) {
	switch name := j.Names[i]; {
	case v.failed*2 > v.met && v.met > 1:
		j.timed(about(name, Bad, "unreachable by others",
			"look at its firewall and interfaces, or choose the network: --network-interface",
			"%d of %d hosts cannot exchange data with it: %s", v.failed, v.met, v.why))
	case v.stalled*2 > v.met && v.met > 1:
		j.timed(about(name, Bad, "mtu",
			"make the MTU of all interfaces, switches and tunnels alike: ip link set dev eth0 mtu 1400; or let "+
				"ICMP pass", "large packets do not pass to %d of %d hosts, and small ones do: an MTU black hole",
			v.stalled, v.met))
	}
}

// clock judges the clock against those of the others.
func (j *judge) clock(i int, v pairing, _ []pairing) {
	if len(v.offset) == 0 {
		return
	}
	// offset is how far this clock is ahead. With two hosts either may be wrong; the second one is
	// named.
	ahead := median(v.offset)
	if alone := len(v.offset) == 1 && len(j.Names) == 2; alone && i == 0 {
		return
	}
	off := math.Abs(ahead) - median(v.rtt)
	if off < clockWarn || len(v.offset) > 1 && math.Abs(middle(v.offset, true)) < clockWarn {
		return
	}
	severity := Warning
	which := "ahead of"
	if off >= clockBad {
		severity = Bad
	}
	if ahead < 0 {
		which = "behind"
	}
	j.timed(about(j.Names[i], severity, "clock",
		"let it follow a time server: systemctl restart chronyd, or systemd-timesyncd",
		"its clock is %s %s those of the others", Seconds(math.Abs(ahead)), which))
}

// rest collects a value of all hosts except one.
func rest(views []pairing, but int, of func(pairing) float64) (values []float64) {
	for i, v := range views {
		if i != but && v.failed*2 <= v.met && len(v.rtt) > 0 {
			values = append(values, of(v))
		}
	}
	return values
}

// latency judges the round-trip time to most hosts. Two hosts have nothing to compare with.
func (j *judge) latency(i int, v pairing, views []pairing) {
	if len(j.Names) < 3 || len(v.rtt) == 0 {
		return
	}
	own := func(v pairing) float64 { return v.far }
	c, ok := compare(own(v), rest(views, i, own))
	if !ok || c.times < farTimes || own(v)-c.usual < farLeast || c.sigma < 5 {
		return
	}
	j.timed(about(j.Names[i], Bad, "latency", "look at its cable, switch port and interface: ethtool -S, ping",
		"a round trip to it takes %s, and between the others %s", Seconds(own(v)),
		Seconds(c.usual)).than(c.times, c.sigma))
}

// loss judges the share of segments that had to be sent again.
func (j *judge) loss(i int, v pairing, views []pairing) {
	own := func(v pairing) float64 { return v.lost }
	lost := own(v)
	if lost < lossWarn || v.resent < lossLeast {
		return
	}
	usual := 0.0
	if len(j.Names) > 2 {
		usual = median(rest(views, i, own))
	} else if i == 0 {
		return // the second of two is named
	}
	if lost < 5*usual {
		return
	}
	severity := Warning
	times := 0.0
	way := "sends or gets"
	if lost >= lossBad {
		severity = Bad
	}
	if usual > 0 {
		times = lost / usual
	}
	out := median(v.lossOut)
	in := median(v.lossIn)
	switch {
	case out > 4*in:
		way = "sends"
	case in > 4*out:
		way = "gets"
	}
	j.timed(about(j.Names[i], severity, "loss", "look at its cable and interface: ethtool -S eth0 | grep -E 'err|drop'",
		"%.2g %% of the packets that it %s are lost", 100*lost, way).than(times, 0))
}

// bandwidth judges the rates at which a host sends to and receives from most others.
func (j *judge) bandwidth(i int, v pairing, views []pairing) {
	if len(j.Names) < 3 || len(v.out) == 0 {
		return
	}
	out := func(v pairing) float64 { return v.sends }
	in := func(v pairing) float64 { return v.gets }
	const slowTimes = 0.7
	if v.sends >= slowTimes*median(rest(views, i, out)) && v.gets >= slowTimes*median(rest(views, i, in)) {
		return
	}
	all := j.rates(-1)
	others := j.rates(i)
	// judged returns how far off one direction is, and whether that is slow. Among few hosts the
	// links of a bad one widen the spread of all; then it counts without them if all its links are
	// slower than most others.
	judged := func(own func(pairing) float64, links []float64) (c compared, slow bool) {
		usual := rest(views, i, own)
		c, ok := compareRates(own(v), usual, all, others)
		if ok && c.sigma < rateSigma && len(links) > 2 && slices.Max(links) < lowerQuarter(others) {
			c, ok = compareRates(own(v), usual, others)
		}
		return c, ok && c.times < slowTimes && c.sigma >= rateSigma
	}
	sends, slowOut := judged(out, v.out)
	gets, slowIn := judged(in, v.in)
	worst := sends
	way := "sends at"
	value := out(v)
	switch {
	case !slowOut && !slowIn:
		return
	case slowOut && slowIn && sends.times/gets.times < 1.5 && gets.times/sends.times < 1.5:
		way = "sends and receives at"
	case slowIn && (!slowOut || gets.times < sends.times):
		worst = gets
		way = "receives at"
		value = in(v)
	}
	severity := Warning
	if worst.times < 0.6 {
		severity = Bad
	}
	j.timed(about(j.Names[i], severity, "bandwidth",
		"look at the speed of its link and its cable: ethtool eth0 | grep Speed, tc qdisc",
		"it %s %s, and the others at %s", way, rate(value), rate(worst.usual)).than(worst.times, worst.sigma))
}

// rates returns the bandwidths of all links except those of one host.
func (j *judge) rates(but int) (all []float64) {
	for _, l := range j.Links {
		for _, rate := range []float64{l.Out, l.In} {
			if l.From != but && l.To != but && rate > 0 && !l.Doubted {
				all = append(all, rate)
			}
		}
	}
	return all
}

// links finds bad links between hosts that are good otherwise: a slow cable, a blocked port.
func (j *judge) links(views []pairing, blamed map[int]bool) {
	var rtts, rates []float64
	for _, v := range views {
		rtts = append(rtts, v.rtt...)
		rates = append(rates, v.out...)
	}
	usualRTT := among(rtts)
	usualRate := amongRates(rates)
	for _, l := range j.Links {
		if blamed[l.From] || blamed[l.To] || l.Doubted {
			continue
		}
		f := Finding{
			Host:     j.Names[l.From],
			With:     j.Names[l.To],
			Severity: Bad,
			Kind:     "link",
		}
		far, okFar := usualRTT.compare(l.RTT)
		slow, okSlow := usualRate.compareRate(min(l.Out, l.In))
		lost := max(share(l.Resent[0], l.Sent[0]), share(l.Resent[1], l.Sent[1]))
		switch {
		case l.Error != "":
			f.Text = "they cannot exchange data: " + l.Error
			f.Fix = "look at firewalls and routes between them"
		case l.Stalled != "":
			f.Text = "large packets do not pass between them, and small ones do: an MTU black hole"
			f.Fix = "make the MTU alike on the way"
		case len(j.Names) < 3:
			continue
		case okFar && far.times >= 2*farTimes && l.RTT-far.usual >= farLeast && far.sigma >= 8:
			f.Severity = Warning
			f.Times = far.times
			f.Sigma = far.sigma
			f.Text = fmt.Sprintf("a round trip between them takes %s, and %s between most", Seconds(l.RTT),
				Seconds(far.usual))
		case okSlow && l.Out > 0 && l.In > 0 && slow.times < 0.35 && slow.sigma >= 2*rateSigma:
			f.Severity = Warning
			f.Times = slow.times
			f.Sigma = slow.sigma
			f.Text = fmt.Sprintf("data passes between them at %s, and at %s between most", rate(min(l.Out, l.In)),
				rate(slow.usual))
		// The kernel drops what a probe that waits for a core does not read: such losses are not
		// the network's.
		case lost >= 4*lossBad && l.Resent[0]+l.Resent[1] >= 3*lossLeast && l.Busy <= crowdedShare/2:
			f.Severity = Warning
			f.Text = fmt.Sprintf("%.2g %% of the packets between them are lost", 100*lost)
		default:
			continue
		}
		if f.Fix == "" {
			f.Fix = "look at cables and switch ports between them"
		}
		j.timed(f)
	}
}
