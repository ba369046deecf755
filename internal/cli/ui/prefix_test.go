package ui

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/cli/exitcode"
	"github.com/gorun/gorun/internal/cli/settings"
	"github.com/gorun/gorun/internal/cli/usage"
	"github.com/gorun/gorun/internal/test/environ"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/plan"
)

func planOf(t *testing.T, hosts string) launcher.Plan {
	t.Helper()
	list, err := hostfile.ParseList(hosts)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := list.Hosts()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := plan.New(parsed, launcher.Request{})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func TestPrefix(t *testing.T) {
	const two = "f1:2,node.example.org:9"
	for _, tc := range []struct {
		style, hosts string
		rank, fd     int
		want         string
	}{
		{"host", two, 0, 1, "f1:0:    "},
		{"host", two, 1, 2, "f1:1:    "},
		{"host", two, 2, 1, "node:2:  "},
		{"host", two, 10, 1, "node:10: "},
		{"", two, 10, 1, "node:10: "},
		{"host", "10.1.2.3,[fd00::1]", 0, 1, "10.1.2.3:0: "},
		{"host", "10.1.2.3,[fd00::1]", 1, 1, "fd00::1:1:  "},
		{"rank", two, 10, 2, "[10] "},
		{"horovod", two, 0, 1, "[0]<stdout>:"},
		{"horovod", two, 10, 2, "[10]<stderr>:"},
		{"mpirun", two, 3, 1, "[1,3]<stdout>:"},
		{"mpirun", two, 3, 2, "[1,3]<stderr>:"},
		{"%h/%r/%s> ", two, 4, 2, "node/4/stderr> "},
		{"default", two, 0, 1, "f1:0:    "},
		{"hydra", two, 10, 2, "[10] "},
		{"ompi", two, 3, 1, "[1,3]<stdout>:"},
		{"%h/%l ", two, 4, 1, "node/2 "},
		{"100%% %r|", two, 4, 1, "100% 4|"},
		{"%%r ", two, 4, 1, "%r "},
		{"%%q%r", two, 4, 1, "%q4"},
	} {
		prefix, err := LineStyle{Style: tc.style}.Prefixer(planOf(t, tc.hosts))
		if err != nil {
			t.Errorf("%q: %v", tc.style, err)
			continue
		}
		for range 2 { // the second time from the cache
			if got := string(prefix(tc.rank, tc.fd, time.Now())); got != tc.want {
				t.Errorf("%q, rank %d, fd %d: %q, want %q", tc.style, tc.rank, tc.fd, got, tc.want)
			}
		}
	}
}

func TestHostPrefixesLineUp(t *testing.T) {
	plan := planOf(t, "a:11,b.example.org:3,10.0.0.1")
	prefix, err := LineStyle{Style: "host"}.Prefixer(plan)
	if err != nil {
		t.Fatal(err)
	}
	for rank := range plan.Size {
		if got, want := len(prefix(rank, 1, time.Time{})), len(prefix(0, 1, time.Time{})); got != want {
			t.Errorf("the prefix of rank %d is %d bytes wide, of rank 0 %d", rank, got, want)
		}
	}
}

func TestNoPrefix(t *testing.T) {
	prefix, err := LineStyle{Style: "none"}.Prefixer(planOf(t, "a"))
	if prefix != nil || err != nil {
		t.Errorf("%v", err)
	}
	var mistake *usage.Error
	if _, err := (LineStyle{Style: "fancy"}).Prefixer(planOf(t, "a")); !errors.As(err, &mistake) || mistake.Hint() == "" {
		t.Errorf("an unknown style: %v", err)
	}
}

func TestShortName(t *testing.T) {
	for host, want := range map[string]string{
		"f1": "f1", "f1.example.org": "f1", "10.0.0.1": "10.0.0.1", "fd00::1": "fd00::1", "localhost": "localhost", "": "",
	} {
		if got := shortName(host); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
}

func TestPrefixWithTheTime(t *testing.T) {
	at := time.Date(2026, 11, 21, 0, 57, 31, 45e6, time.UTC)
	for _, tc := range []struct {
		look LineStyle
		want string
	}{
		{LineStyle{Style: "host", Timestamp: true}, "2026-11-21 00:57:31.045 f2:2: "},
		{LineStyle{Style: "rank", Timestamp: true}, "2026-11-21 00:57:31.045 [2] "},
		{LineStyle{Style: "none", Timestamp: true}, "2026-11-21 00:57:31.045 "},
		{LineStyle{Style: "%r %t|"}, "2 2026-11-21 00:57:31.045|"},
		{LineStyle{Style: "%r %t|", Timestamp: true}, "2 2026-11-21 00:57:31.045|"},
		{LineStyle{Style: "%r|", Timestamp: true}, "2026-11-21 00:57:31.045 2|"},
		// As mpirun and horovodrun write it.
		{LineStyle{Style: "mpirun", Timestamp: true}, "Sat Nov 21 00:57:31 2026[1,2]<stdout>:"},
		{LineStyle{Style: "horovod", Timestamp: true}, "Sat Nov 21 00:57:31 2026[2]<stdout>:"},
	} {
		prefix, err := tc.look.Prefixer(planOf(t, "f1:2,f2:2"))
		if err != nil {
			t.Errorf("%+v: %v", tc.look, err)
			continue
		}
		for range 2 {
			if got := string(prefix(2, 1, at)); got != tc.want {
				t.Errorf("%+v: %q, want %q", tc.look, got, tc.want)
			}
		}
		later := string(prefix(2, 1, at.Add(time.Minute)))
		if later != strings.Replace(tc.want, "00:57", "00:58", 1) {
			t.Errorf("%+v: a minute later %q", tc.look, later)
		}
		at := at
		if n := testing.AllocsPerRun(100, func() { at = at.Add(time.Second); prefix(2, 1, at) }); n != 0 {
			t.Errorf("%+v: %v allocations for a prefix", tc.look, n)
		}
	}
}

func TestPrefixHasItsHostsColour(t *testing.T) {
	prefix, err := LineStyle{Style: "rank", Color: [3]bool{1: true}}.Prefixer(planOf(t, "f1:2,f2"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		rank, fd int
		want     string
	}{{0, 1, "\x1b[36m[0] \x1b[0m"}, {1, 1, "\x1b[36m[1] \x1b[0m"}, {2, 1, "\x1b[33m[2] \x1b[0m"}, {2, 2, "[2] "}} {
		if got := string(prefix(tc.rank, tc.fd, time.Time{})); got != tc.want {
			t.Errorf("rank %d, fd %d: %q, want %q", tc.rank, tc.fd, got, tc.want)
		}
	}
}

func TestUseColour(t *testing.T) {
	for _, tc := range []struct {
		mode     string
		terminal bool
		env      map[string]string
		want     bool
	}{
		{"auto", true, nil, true},
		{"auto", false, nil, false},
		{"auto", true, map[string]string{"NO_COLOR": "1"}, false},
		{"auto", true, map[string]string{"NO_COLOR": ""}, true},
		{"auto", true, map[string]string{"TERM": "dumb"}, false},
		{"always", false, map[string]string{"NO_COLOR": "1"}, true},
		{"never", true, nil, false},
	} {
		if got := UseColor(tc.mode, tc.terminal, environ.Lookup(tc.env)); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}

func TestRanks(t *testing.T) {
	for text, want := range map[string]string{"0": "0", "0,8-11": "0,8-11", " 3 , 1-2": "3,1-2", "5-5": "5"} {
		var r settings.Ranks
		if err := r.Set(text); err != nil || r.String() != want {
			t.Errorf("%q is %q, %v; want %q", text, r.String(), err, want)
		}
	}
	for _, text := range []string{"", "a", "-1", "3-1", "1-", "1,,2", "1-2-3", "99999999999", "0x1"} {
		r := settings.Ranks{{1, 1}}
		if err := r.Set(text); err == nil || r.String() != "1" {
			t.Errorf("%q was taken for %v, %v", text, r, err)
		}
	}
	show, err := settings.Ranks{{0, 0}, {8, 11}}.Filter(12)
	if err != nil {
		t.Fatal(err)
	}
	for rank := range 12 {
		if want := rank == 0 || rank >= 8; show(rank) != want {
			t.Errorf("rank %d is shown: %v", rank, !want)
		}
	}
	if _, err := (settings.Ranks{{0, 0}, {8, 11}}).Filter(11); !exitcode.IsUsage(err) || !strings.Contains(err.Error(), "no rank 11") || !strings.Contains(usage.Hint(err), "0 to 10") {
		t.Errorf("a rank that there is not: %v", err)
	}
	if show, err := settings.Ranks(nil).Filter(2); show != nil || err != nil {
		t.Errorf("no ranks named: %v", err)
	}
}

// A style with marks works for an elastic job whose number of ranks has changed.
func TestPrefixOfMoreAndFewerRanks(t *testing.T) {
	l := LineStyle{Style: "%p %r|", Programs: []launcher.Program{{Argv: []string{"bin/train"}, Ranks: 3}}}
	for hosts, want := range map[string]string{"f1:2": "train 1|", "f1:3,f2:2": "train 4|"} {
		plan := planOf(t, hosts)
		prefix, err := l.Prefixer(plan)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(prefix(plan.Size-1, 1, time.Time{})); got != want {
			t.Errorf("%s: %q, want %q", hosts, got, want)
		}
	}
}
