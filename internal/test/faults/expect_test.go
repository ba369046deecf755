package faults

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestExpected(t *testing.T) {
	const (
		ms    = time.Millisecond
		rank  = "gorun: error: rank 1 on f1 was killed by signal 9 (SIGKILL) (after 1 s, at 00:00:00)"
		host1 = "gorun: error: host f1: lost the connection"
		host2 = "gorun: error: host f2: lost the connection"
	)
	hit := func(fault Kind, host string, phase Phase) Injection {
		return Injection{Fault: fault, Phase: phase, Host: host}
	}
	deaf := func(fault Kind) Injection {
		d := hit(fault, "f1", Running)
		d.Ignore = true
		return d
	}
	stopped := hit(AgentStop, "f2", Running)
	stopped.Lasts = time.Second
	then := func(d Injection, second Kind, gap time.Duration) Injection {
		d.Second = second
		d.Gap = gap
		return d
	}
	killed := hit(RankKill, "f1", Running)
	for _, tt := range []struct {
		name       string
		d          Injection
		codes      []int
		right      []string // causes that are right; none: no cause is looked for
		wrong      []string
		end, clean time.Duration
	}{
		{"a rank dies", killed, []int{137}, []string{rank}, []string{host1, ""}, 500 * ms, 500 * ms},
		{"and the others ignore TERM", deaf(RankKill), []int{137}, []string{rank}, nil, 2500 * ms, 2500 * ms},
		{"it was ending", hit(RankKill, "f1", Ending), []int{137, 0}, nil, nil, 500 * ms, 500 * ms},
		{"the wrong host", hit(AgentKill, "f2", Running), []int{125}, []string{host2}, []string{host1, rank}, 500 * ms,
			500 * ms},
		{"an agent dies early", hit(AgentKill, "f2", Starting), []int{125}, []string{"gorun: error: f2: start"},
			[]string{"gorun: error: f1: start"}, 500 * ms, 500 * ms},
		{"a host falls silent", hit(HostCut, "f1", Running), []int{125}, []string{host1}, []string{rank},
			7 * time.Second, 12 * time.Second},
		{"the launcher dies", deaf(LauncherKill), []int{137}, nil, nil, 0, 3 * time.Second},
		{"Ctrl-C", deaf(LauncherInt), []int{130}, nil, nil, 2500 * ms, 2500 * ms},
		{"twice", deaf(LauncherIntInt), []int{130}, nil, nil, 500 * ms, 500 * ms},
		{"a pause passes", stopped, []int{0}, nil, nil, 3 * time.Second, 3 * time.Second},
		{"a pause, and then a death", then(stopped, RankKill, 700*ms), []int{137}, []string{rank}, []string{host2},
			3 * time.Second, 3 * time.Second},
		{"two deaths, near", then(killed, AgentKill, 100*ms), []int{137, 125}, []string{rank, host2}, []string{host1},
			500 * ms, 500 * ms},
		{"two deaths, apart", then(killed, AgentKill, 700*ms), []int{137}, []string{rank}, []string{host2}, 500 * ms,
			500 * ms},
		{"a death and a stop request", then(killed, LauncherTerm, 100*ms), []int{137, 143}, nil, nil, 500 * ms,
			500 * ms},
	} {
		e := Expected(tt.d, Bounds{Fence: 12 * time.Second})
		check.That(t, slices.Equal(e.Codes, tt.codes) && e.End == tt.end && e.Clean == tt.clean,
			"%s: codes %v, end %v, clean %v; want %v, %v, %v", tt.name, e.Codes, e.End, e.Clean, tt.codes, tt.end,
			tt.clean)
		check.That(t, (e.Cause != "") == (len(tt.right) > 0), "%s: cause %q", tt.name, e.Cause)
		cause := regexp.MustCompile(e.Cause)
		for _, line := range tt.right {
			check.That(t, cause.MatchString(line), "%s: %q does not match %q", tt.name, line, e.Cause)
		}
		for _, line := range tt.wrong {
			check.That(t, !cause.MatchString(line), "%s: %q matches %q", tt.name, line, e.Cause)
		}
	}
}

func TestDraw(t *testing.T) {
	seen := map[Kind]int{}
	phases := map[Phase]int{}
	doubles := 0
	for seed := range uint64(5000) {
		d := Draw(seed)
		must.That(t, d == Draw(seed), "seed %d draws two things", seed)
		first := infoOf(d.Fault)
		second := infoOf(d.Second)
		check.That(t, first.kind != None && d.mayBe(first), "seed %d: %+v", seed, d)
		if d.Second != None {
			doubles++
			check.That(t, !second.passes() && second.detect <= 0 && d.Second != d.Fault && d.Gap <= time.Second,
				"seed %d: %+v", seed, d)
		}
		e := Expected(d, Bounds{Fence: 12 * time.Second})
		check.That(t, len(e.Codes) != 0 && e.Clean != 0 && (!e.Complete || slices.Equal(e.Codes, []int{0})),
			"seed %d: %+v: %+v", seed, d, e)
		seen[d.Fault]++
		phases[d.Phase]++
	}
	for _, k := range kinds() {
		check.That(t, seen[k.kind] >= 50, "%s is drawn %d times", k.kind, seen[k.kind])
	}
	check.That(t, len(phases) == 5 && doubles >= 200, "phases %v, %d double faults", phases, doubles)
}
