package doctor

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// apart are machines of one host each.
func apart(n int) (machines []Machine) {
	for i := range n {
		machines = append(machines, Machine{ID: fmt.Sprint("m", i), Cores: 8})
	}
	return machines
}

// shared are hosts of one machine.
func shared(n, cores int) (machines []Machine) {
	for range n {
		machines = append(machines, Machine{ID: "m", Cores: cores})
	}
	return machines
}

func (t Timetable) met(tt *testing.T) map[[2]int]int {
	tt.Helper()
	met := map[[2]int]int{}
	for place, turn := range t.Turns {
		busy := map[int]bool{}
		for _, pair := range turn {
			must.That(tt, pair[0] < pair[1] && !busy[pair[0]] && !busy[pair[1]], "turn %d: %v", place, turn)
			busy[pair[0]] = true
			busy[pair[1]] = true
			met[pair]++
		}
	}
	return met
}

// Every two hosts meet once, and in a turn no host meets two.
func TestEveryTwoHostsMeetOnce(t *testing.T) {
	for n := range 66 {
		for name, machines := range map[string][]Machine{"apart": apart(n), "shared": shared(n, 2)} {
			table := NewPlan("default").Timetable(machines)
			met := table.met(t)
			check.That(t, len(met) == n*(n-1)/2, "%d hosts %s: %d pairs meet", n, name, len(met))
			for pair, times := range met {
				check.That(t, times == 1, "%d hosts %s: %v meet %d times", n, name, pair, times)
			}
			for _, turn := range table.Turns {
				must.That(t, name != "shared" || len(turn) <= 1, "%d hosts on two cores: %v meet at once", n, turn)
			}
		}
	}
}

func TestTimeOfAnExaminationIsBounded(t *testing.T) {
	for _, level := range Levels() {
		p := NewPlan(level)
		for _, n := range []int{1, 2, 3, 64, 500, 3000} {
			if table := p.Timetable(apart(n)); table.Length() > p.Network || n > 1 && table.Turn < fairTurn {
				t.Errorf("%s, %d hosts: %d turns of %v", level, n, len(table.Turns), table.Turn)
			}
			if table := p.Timetable(shared(min(n, 300), 2)); table.Length() > sharedTimes*p.Network || n > 1 &&
				table.Turn < shortTurn {
				t.Errorf("%s, %d hosts of a machine: %d turns of %v", level, n, len(table.Turns), table.Turn)
			}
			if _, kernel, end := p.SpeedTurn(shared(n, 2), n-1); kernel > p.Speed || end > maxSpeeds {
				t.Errorf("%s, %d hosts of a machine: speeds take %v", level, n, end)
			}
		}
	}
}

// BenchmarkJudge judges 500 hosts that have all met each other.
func BenchmarkJudge(b *testing.B) {
	m := healthy(500, 1)
	for b.Loop() {
		Judge(m)
	}
}

// Hosts of one machine measure their speeds one after the other.
func TestHostsOfAMachineTakeTurns(t *testing.T) {
	p := NewPlan("default")
	machines := append(shared(3, 2), apart(1)...)
	var ended time.Duration
	for me := range 3 {
		start, kernel, _ := p.SpeedTurn(machines, me)
		check.That(t, start >= ended && kernel > 0, "host %d starts at %v, before %v", me, start, ended)
		ended = start + 2*kernel
	}
	start, kernel, _ := p.SpeedTurn(machines, 3)
	check.That(t, start == 0 && kernel == p.Speed, "a host of its own waits %v and measures %v", start, kernel)
	table := p.Timetable(append(shared(4, 4), apart(4)...))
	check.That(t, len(table.Turns) <= 12, "hosts of machines with room take %d turns", len(table.Turns))
}

// healthy returns hosts that differ by chance only.
func healthy(n int, seed uint64) Measured {
	r := rand.New(rand.NewPCG(seed, 1))
	about := func(v, part float64) float64 { return v * (1 + part*(2*r.Float64()-1)) }
	m := Measured{Hosts: map[string]Host{}}
	for i := range n {
		name := fmt.Sprint("f", i+1)
		m.Names = append(m.Names, name)
		m.Hosts[name] = Host{
			Finished: true,
			Login:    &Login{Seconds: about(0.2, 0.5)},
			Speed:    &Speed{Copy: about(20e9, 0.1), Flops: about(10e9, 0.03), Share: about(0.95, 0.05)},
			Facts: &Facts{
				Kernel:     "6.1.0",
				MainMemory: MainMemory{Memory: 64 * gib, Available: 50 * gib},
				Shm: Disk{
					Name:  "shm",
					Path:  "/dev/shm",
					Size:  32 * gib,
					Free:  32 * gib,
					Files: -1,
				},
				Disks: []Disk{{Name: "tmp", Path: "/tmp", Size: 100 * gib, Free: 50 * gib, Files: 1e6,
					Fsync: about(0.01, 0.9)}},
				Limits:    map[string]uint64{"nofile": 65536, "nproc": 10000},
				Versions:  map[string]string{"torch": "2.5.1"},
				Processor: Processor{Cores: 8, Load: about(1, 1), Steal: about(0.01, 1)},
			},
		}
		for j := range i {
			m.Links = append(m.Links, Link{
				From:   j,
				To:     i,
				RTT:    about(50e-6, 0.3),
				Out:    about(1.1e9, 0.1),
				In:     about(1.1e9, 0.1),
				Sent:   [2]int64{50000, 50000},
				Resent: [2]int64{r.Int64N(9), r.Int64N(9)},
				MTU:    1500,
				Offset: about(0, 1) * 1e-3,
			})
		}
	}
	return m
}

// links changes the links of a host, which is at their other end if back is set.
func (m *Measured) links(host int, change func(l *Link, back bool)) {
	for i := range m.Links {
		if l := &m.Links[i]; l.From == host || l.To == host {
			change(l, l.To == host)
		}
	}
}

func TestHealthyHostsHaveNoFindings(t *testing.T) {
	for seed := range uint64(40) {
		for _, n := range []int{1, 2, 3, 8} {
			f := Judge(healthy(n, seed))
			must.That(t, len(f) == 0, "seed %d, %d hosts: %+v", seed, n, f)
		}
	}
}

func TestFaultsAreNamed(t *testing.T) {
	const sick = 2 // f3
	facts := func(change func(f *Facts)) func(m *Measured) {
		return func(m *Measured) { change(m.Hosts["f3"].Facts) }
	}
	whole := func(change func(h *Host)) func(m *Measured) {
		return func(m *Measured) {
			h := m.Hosts["f3"]
			change(&h)
			m.Hosts["f3"] = h
		}
	}
	net := func(change func(l *Link, back bool)) func(m *Measured) {
		return func(m *Measured) { m.links(sick, change) }
	}
	for name, c := range map[string]struct {
		plant    func(m *Measured)
		kind     string
		severity Severity
	}{
		"down": {whole(func(h *Host) { *h = Host{Error: "connection refused"} }), "unreachable", Bad},
		"hangs": {whole(func(h *Host) {
			h.Finished = false
			h.Speed = nil
		}), "hang", Bad},
		"noisy":      {whole(func(h *Host) { h.Login.Noise = "hello" }), "start files", Warning},
		"slow login": {whole(func(h *Host) { h.Login.Seconds = 9 }), "login", Warning},
		"slow memory": {whole(func(h *Host) {
			h.Speed = &Speed{Copy: 5e9, Flops: h.Speed.Flops}
		}), "memory speed", Bad},
		"slow processor": {whole(func(h *Host) { h.Speed = &Speed{Copy: h.Speed.Copy, Flops: 4e9} }), "cpu speed", Bad},
		"half a quota":   {facts(func(f *Facts) { f.Quota = 4 }), "quota", Bad},
		"full tmp":       {facts(func(f *Facts) { f.Disks[0].Free = 4096 }), "disk", Bad},
		"no inodes":      {facts(func(f *Facts) { f.Disks[0].Files = 0 }), "disk", Bad},
		"slow disk":      {facts(func(f *Facts) { f.Disks[0].Fsync = 2.5 }), "fsync", Warning},
		"tiny shm":       {facts(func(f *Facts) { f.Shm.Size = mib }), "shm", Bad},
		"docker's shm": {facts(func(f *Facts) {
			f.Shm.Size = 64 * mib
			f.Shm.Free = 64 * mib
		}), "shm", Warning},
		"few files": {facts(func(f *Facts) { f.Limits["nofile"] = 256 }), "limits", Bad},
		"no memory": {facts(func(f *Facts) { f.Available = gib }), "memory", Warning},
		"swaps": {facts(func(f *Facts) {
			f.SwapUsed = 9 * gib
			f.Available = 5 * gib
		}), "memory", Warning},
		"a module less": {facts(func(f *Facts) {
			f.NodeMemory = []NodeMemory{{32 * gib, 30 * gib}, {16 * gib, 9 * gib}}
		}), "numa", Warning},
		"a full node": {facts(func(f *Facts) {
			f.NodeMemory = []NodeMemory{{32 * gib, gib / 8}, {32 * gib, 30 * gib}}
		}), "numa", Warning},
		"one session": {whole(func(h *Host) { h.Login.OneSession = true }), "ssh sessions", Warning},
		"many keys":   {whole(func(h *Host) { h.Login.Offered = 5 }), "ssh keys", Warning},
		"other governor": {facts(func(f *Facts) {
			f.Governor = "powersave"
		}), "version of frequency governor", Warning},
		"other ptrace": {facts(func(f *Facts) { f.Ptrace = "3" }), "version of ptrace_scope", Warning},
		"huge pages":   {facts(func(f *Facts) { f.HugePages = 512 }), "version of number of huge pages", Warning},
		"no balancing": {facts(func(f *Facts) { f.Balancing = "0" }), "version of automatic NUMA balancing", Warning},
		"detour": {net(func(l *Link, back bool) {
			if back {
				l.Into = "eth0"
				l.Back = "eth1"
			}
		}), "routes", Warning},
		"throttled": {facts(func(f *Facts) { f.Throttles = 3 }), "throttling", Warning},
		"stolen":    {facts(func(f *Facts) { f.Steal = 0.4 }), "steal", Warning},
		"shared": {whole(func(h *Host) {
			h.Speed = &Speed{Copy: h.Speed.Copy / 5, Flops: h.Speed.Flops / 5, Share: 0.3}
		}), "contention", Warning},
		"two hogs": {facts(func(f *Facts) {
			f.Busy = []Process{{PID: 7, Name: "burn", CPU: 0.9}, {PID: 8, Name: "burn", CPU: 0.8}}
		}), "busy", Warning},
		"hog": {facts(func(f *Facts) {
			f.Busy = []Process{{PID: 7, Name: "burn", CPU: 0.9}}
		}), "busy", Warning},
		"slow DNS":     {facts(func(f *Facts) { f.DNS.Seconds = 1.5 }), "dns", Warning},
		"other torch":  {facts(func(f *Facts) { f.Versions["torch"] = "2.1.0" }), "version of torch", Bad},
		"no torch":     {facts(func(f *Facts) { delete(f.Versions, "torch") }), "version of torch", Warning},
		"other kernel": {facts(func(f *Facts) { f.Kernel = "5.14" }), "version of kernel", Warning},
		"far":          {net(func(l *Link, _ bool) { l.RTT += 5e-3 }), "latency", Bad},
		"narrow": {net(func(l *Link, _ bool) {
			l.Out = l.Out / 2
			l.In = l.In / 2
		}), "bandwidth", Bad},
		"narrow out": {net(func(l *Link, back bool) { *pickRate(l, back) /= 2 }), "bandwidth", Bad},
		"lossy":      {net(func(l *Link, back bool) { l.Resent = [2]int64{500, 500} }), "loss", Bad},
		"black hole": {net(func(l *Link, back bool) {
			l.Stalled = "both"
			l.Out = 0
			l.In = 0
		}), "mtu", Bad},
		"firewall": {net(func(l *Link, back bool) {
			*l = Link{From: l.From, To: l.To, Error: "no answer in time"}
		}), "unreachable by others", Bad},
		"clock ahead":  {net(func(l *Link, back bool) { l.Offset = shifted(3, back) }), "clock", Bad},
		"clock behind": {net(func(l *Link, back bool) { l.Offset = shifted(-0.3, back) }), "clock", Warning},
	} {
		for _, n := range []int{3, 4, 9} {
			m := healthy(n, 1)
			c.plant(&m)
			got := Judge(m)
			if len(got) == 0 {
				t.Errorf("%s: nothing is found among %d hosts", name, n)
				continue
			}
			for _, f := range got {
				check.That(t, f.Host == "f3" && f.With == "" && (f.Kind != c.kind || f.Severity == c.severity),
					"%s among %d hosts: %+v", name, n, f)
			}
			check.That(t, slices.ContainsFunc(got, func(f Finding) bool { return f.Kind == c.kind }),
				"%s among %d hosts: %+v", name, n, got)
			if bad := BadHosts(got, m.Names); c.severity == Bad && !slices.Equal(bad, []string{"f3"}) ||
				c.severity == Warning && bad != nil {
				t.Errorf("%s among %d hosts: bad are %v", name, n, bad)
			}
		}
	}
}

func pickRate(l *Link, back bool) *float64 {
	if back {
		return &l.In
	}
	return &l.Out
}

func shifted(by float64, back bool) float64 {
	if back {
		return by
	}
	return -by
}

// A cable between two good hosts is a link, not a host.
func TestBadLinkIsNoBadHost(t *testing.T) {
	for name, spoil := range map[string]func(l *Link){
		"far": func(l *Link) { l.RTT = 5e-3 }, "narrow": func(l *Link) { l.In /= 10 }, "shut": func(l *Link) {
			*l = Link{From: l.From, To: l.To, Error: "refused"}
		},
		"lossy": func(l *Link) { l.Resent[0] = 2000 }, "hole": func(l *Link) {
			l.Stalled = "out"
			l.Out = 0
		},
	} {
		m := healthy(6, 3)
		spoil(&m.Links[4]) // f2 to f4
		got := Judge(m)
		check.That(t, len(got) == 1 && got[0].Kind == "link" && got[0].Host == m.Names[m.Links[4].From] &&
			got[0].With == m.Names[m.Links[4].To],
			"%s: %+v", name, got)
	}
}

// Rates in Mbyte/s between hosts of the lab on a busy machine, where bandwidth varies by half.
func TestNarrowHostIsFoundAmongUnsteadyOnes(t *testing.T) {
	for name, c := range map[string]struct {
		rates  [][]float64
		narrow string
	}{
		"unsteady": {[][]float64{{0, 912, 1860, 2086}, {1019, 0, 510, 1091}, {1738, 1106, 0, 2885},
			{1238, 815, 749, 0}}, ""},
		"narrow": {[][]float64{{0, 912, 1860, 2086}, {1019, 0, 510, 1091}, {23, 24, 0, 24}, {1238, 815, 749, 0}}, "f3"},
		"half both ways": {[][]float64{{0, 11.3, 10.3, 11.2, 11.5}, {9.8, 0, 14.4, 20.8, 17.3},
			{11.5, 22.2, 0, 21, 18.8}, {10.5, 22, 20, 0, 17.7}, {11.7, 18.2, 21.6, 22.5, 0}}, "f1"},
		"half when receiving": {[][]float64{{0, 20.8, 16.5, 11.5, 22.9}, {9, 0, 10.8, 22.3, 21.9},
			{12, 14.4, 0, 21.2, 19.7}, {11.8, 22.2, 20.9, 0, 17.4}, {12, 18.2, 22.3, 22.5, 0}}, "f1"},
	} {
		m := healthy(len(c.rates), 1)
		for i := range m.Links {
			l := &m.Links[i]
			l.Out = c.rates[l.From][l.To] * 1e6
			l.In = c.rates[l.To][l.From] * 1e6
		}
		got := Judge(m)
		check.That(t, len(got) == 0 || len(got) == 1 && got[0].Kind == "bandwidth" && got[0].Severity == Bad,
			"%s: %+v", name, got)
		check.Equal(t, strings.Join(BadHosts(got, m.Names), " "), c.narrow, name)
	}
}

// Where most pairs of most hosts run out of time, no host is to blame.
func TestBusyMachineBlamesNoHost(t *testing.T) {
	m := healthy(16, 1)
	for i := range m.Links {
		if i%3 > 0 {
			m.Links[i] = Link{From: m.Links[i].From, To: m.Links[i].To, Error: "no answer in time"}
		}
	}
	got := Judge(m)
	check.That(t, len(got) == 1 && got[0].Kind == "network" && got[0].Host == "" && BadHosts(got, m.Names) == nil,
		"%+v", got)
	m = healthy(16, 1) // hosts of one machine see the same process
	for _, h := range m.Hosts {
		h.Facts.Machine = "m"
		h.Facts.Busy = []Process{{PID: 7, Name: "burn", CPU: 0.9, Started: 5}}
	}
	if got := Judge(m); len(got) != 1 || got[0].Kind != "busy" {
		t.Errorf("one process: %+v", got)
	}
	m = healthy(16, 1)
	m.links(3, func(l *Link, _ bool) {
		l.Resent = [2]int64{500, 500}
		l.Busy = 0.9
	})
	if got := Confirm(Judge(m), Judge(m), m); len(got) != 1 || got[0].Kind != "busy probes" ||
		got[0].Severity != Warning || BadHosts(got, m.Names) != nil {
		t.Errorf("busy probes: %+v", got)
	}
	m.links(3, func(l *Link, _ bool) { l.Busy = 0.2 })
	if got := Confirm(Judge(m), Judge(m), m); !slices.Equal(BadHosts(got, m.Names), []string{"f4"}) {
		t.Errorf("losses at probes that had their cores: %+v", got)
	}
	slow := func(l *Link, _ bool) {
		l.Out *= 0.46
		l.In *= 0.46
	}
	for _, tt := range []struct {
		busy, share float64 // of a core: that a probe waited for, and that it had for its host's speed
		proven      bool
	}{
		{0, 0, true}, {0, 0.9, true}, {0.2, 0.9, true}, {0.35, 0.9, false}, {0.48, 0.9, false}, {0.9, 0.9, false},
		{0, 0.35, false}, {0.1, 0.48, false}, {0.48, 0.35, false},
	} {
		m = healthy(16, 1)
		m.links(3, slow)
		m.links(3, func(l *Link, _ bool) { l.Busy = tt.busy })
		m.Hosts["f4"].Speed.Share = tt.share
		got := Confirm(Judge(m), Judge(m), m)
		named := slices.ContainsFunc(got, func(f Finding) bool { return f.Host == "f4" && f.Kind == "bandwidth" })
		unknown := slices.ContainsFunc(got, func(f Finding) bool { return f.Kind == "busy probes" })
		check.That(t, named == tt.proven && unknown != tt.proven && len(BadHosts(got, m.Names)) > 0 == tt.proven,
			"a slow link by probes %+v: %+v", tt, got)
	}
	m = healthy(16, 1)
	for i := range m.Links {
		m.Links[i].Out /= 50
		m.Links[i].In /= 50
	}
	m.links(3, slow)
	m.links(3, func(l *Link, _ bool) { l.Busy = 0.4 })
	m.Hosts["f4"].Speed.Share = 0.3
	if got := Confirm(Judge(m), Judge(m), m); !slices.Equal(BadHosts(got, m.Names), []string{"f4"}) {
		t.Errorf("a rate for which little of a core is enough: %+v", got)
	}
	m = healthy(16, 1)
	lossy := &m.Links[4]
	lossy.Resent = [2]int64{2000, 0}
	lossy.Busy = 0.4
	got = Judge(m)
	check.That(t, len(got) == 0, "one pair whose kernels dropped what a probe did not read: %+v", got)
	lossy.Busy = 0.1
	got = Judge(m)
	check.That(t, len(got) == 1 && got[0].Kind == "link", "one pair that loses packets: %+v", got)
	m = healthy(4, 1)
	m.Hosts["f2"].Facts.Unasked = true
	delete(m.Hosts["f2"].Facts.Versions, "torch")
	delete(m.Hosts["f2"].Facts.Limits, "nofile")
	got = Judge(m)
	check.That(t, len(got) == 0, "a host that was too slow to answer: %+v", got)
}

// A finding about times counts only if both looks have it.
func TestSecondLookConfirms(t *testing.T) {
	good := healthy(5, 1)
	far := healthy(5, 1)
	far.links(1, func(l *Link, _ bool) { l.RTT += 5e-3 })
	busy := healthy(5, 1)
	busy.Hosts["f2"].Facts.Busy = []Process{{PID: 7, Name: "burn", CPU: 0.9}}
	for name, c := range map[string]struct {
		first, second Measured
		findings      int
	}{
		"never": {good, good, 0}, "once far": {far, good, 0}, "then far": {good, far, 0}, "always far": {far, far, 1},
		"once busy": {busy, good, 0}, "then busy": {good, busy, 0}, "always busy": {busy, busy, 1},
	} {
		got := Confirm(Judge(c.first), Judge(Better(c.first, c.second, Doubts(Judge(c.first), c.first))), c.second)
		check.That(t, len(got) == c.findings, "%s: %+v", name, got)
	}
	check.That(t, !NeedsSecondLook(Judge(good), good) && NeedsSecondLook(Judge(far), far),
		"the second look comes at the wrong time")
}

func TestBaselineNamesWhatGotWorse(t *testing.T) {
	base := healthy(4, 1)
	now := healthy(4, 1)
	if f := Against(base, now); len(f) > 0 {
		t.Errorf("the same: %+v", f)
	}
	for name, h := range now.Hosts { // all of them alike, so that they do not stand out
		h.Speed = &Speed{Copy: h.Speed.Copy / 2, Flops: h.Speed.Flops}
		now.Hosts[name] = h
	}
	now.Hosts["f2"].Facts.Versions["torch"] = "2.6.0"
	got := Against(base, now)
	if len(got) != 5 || !slices.ContainsFunc(got, func(f Finding) bool {
		return f.Host == "f2" && f.Kind == "than before: torch"
	}) {
		t.Errorf("%+v", got)
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{4000: "3.91 KiB", mib: "1 MiB", 1010 * mib: "1010 MiB",
		3 * gib / 2: "1.5 GiB"} {
		check.Equal(t, size(n), want, n)
	}
}

// A second look measures what is in doubt, and takes the rest from the first.
func TestSecondLookIsShort(t *testing.T) {
	const hosts = 16
	m := healthy(hosts, 1)
	m.Hosts["f2"].Facts.Busy = []Process{{PID: 7, Name: "burn", CPU: 0.9}}
	first := NewPlan("default")
	needed, plan := first.Again(Doubts(Judge(m), m), m)
	if p := plan(needed); !slices.Equal(needed, []string{"f2"}) || p.Speed != 0 || p.Version != 0 || p.Pairs == nil ||
		len(p.Pairs) > 0 {
		t.Errorf("one is busy: %v, %+v", needed, p)
	}
	far := func(l *Link, _ bool) { l.RTT += 5e-3 }
	both := healthy(5, 1)
	doubted := Doubt{Hosts: []string{"f1", "f2"}, Linked: []string{"f1", "f2"}, Pairs: [][2]string{{"f2", "f1"}}}
	needed, plan = first.Again(doubted, both)
	for pair, times := range plan(needed).Timetable(shared(len(needed), 2)).met(t) {
		check.That(t, times == 1, "two are in doubt: %v meet %d times", pair, times)
	}
	m.links(2, far)
	m.Links[0] = Link{From: m.Links[0].From, To: m.Links[0].To, Error: "no answer in time"}
	doubt := Doubts(Judge(m), m)
	needed, plan = first.Again(doubt, m)
	p := plan(needed)
	table := p.Timetable(shared(len(needed), 2))
	met := map[[2]string]bool{}
	for pair := range table.met(t) {
		met[[2]string{needed[pair[0]], needed[pair[1]]}] = true
	}
	check.That(t, len(met) == 1+witnesses && met[[2]string{"f1", "f2"}] && len(table.Turns) == len(met),
		"one is far: %v in %d turns", met, len(table.Turns))
	again := Measured{Names: needed, Hosts: map[string]Host{}}
	for _, name := range needed {
		h := m.Hosts[name]
		facts := *h.Facts
		facts.Limits = nil
		facts.Versions = nil
		again.Hosts[name] = Host{Finished: true, Login: h.Login, Facts: &facts}
	}
	good := healthy(hosts, 2)
	look := func(links []Link) Measured {
		again.Links = nil
		for _, l := range links {
			if met[good.ends(l)] {
				l.From = slices.Index(needed, good.Names[l.From])
				l.To = slices.Index(needed, good.Names[l.To])
				again.Links = append(again.Links, l)
			}
		}
		return again
	}
	merged := Better(m, look(good.Links), doubt)
	if len(merged.Links) != hosts*(hosts-1)/2 || merged.Hosts["f1"].Speed == nil ||
		merged.Hosts["f1"].Facts.Versions["torch"] == "" {
		t.Errorf("merged: %d links, %+v", len(merged.Links), merged.Hosts["f1"])
	}
	got := Confirm(Judge(m), Judge(merged), merged)
	check.That(t, len(got) == 1 && got[0].Kind == "busy", "f3 was far by chance: %+v", got)
	good.links(2, far)
	merged = Better(m, look(good.Links), doubt)
	got = Confirm(Judge(m), Judge(merged), merged)
	check.That(t, len(got) == 2 && got[0].Host == "f3" && got[0].Kind == "latency", "f3 is far: %+v", got)
}
