package hosts

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/cli/exitcode"
	"github.com/gorun/gorun/internal/cli/settings"
)

func TestShape(t *testing.T) {
	hosts := func(text string) Selection {
		list, err := hostfile.ParseList(text)
		if err != nil {
			t.Fatal(err)
		}
		found, err := list.Hosts()
		if err != nil {
			t.Fatal(err)
		}
		return Selection{Hosts: found, NP: 9, Source: "-H"}
	}
	for _, tc := range []struct {
		hosts, argv, want string
		np                int
	}{
		{"a:4,b:4", "", "a:4 b:4", 9},
		{"a:4,b:4", "--ppn=2", "a:2 b:2", 0},
		{"a:4,b,c", "--nodes=2", "a:1 b:1", 0},
		{"a:4,b,c", "--nodes=2 --np=5", "a:3 b:2", 0},
		{"a:4,b,c", "--nodes=3 --np=2", "a:1 b:1", 0},
		{"a:4,b,c", "--nodes=2 --ppn=3 --np=5", "a:3 b:3", 0},
	} {
		flags, o := settings.NewFlags()
		if err := flags.Parse(strings.Fields(tc.argv)); err != nil {
			t.Fatal(err)
		}
		before := hosts(tc.hosts)
		kept := slices.Clone(before.Hosts)
		p, err := shape(before, o)
		var got []string
		for _, h := range p.Hosts {
			got = append(got, fmt.Sprintf("%s:%d", h.Name, h.Slots))
		}
		if err != nil || strings.Join(got, " ") != tc.want || p.NP != tc.np || !slices.Equal(kept, before.Hosts) {
			t.Errorf("%s %s: %q, np %d, %v", tc.hosts, tc.argv, got, p.NP, err)
		}
	}
	if _, err := shape(hosts("a"), &settings.Options{Nodes: 2}); !exitcode.IsUsage(err) || !strings.Contains(err.Error(), "there is 1 host, from -H") {
		t.Errorf("too few hosts: %v", err)
	}
	if _, err := shape(hosts("a"), &settings.Options{Ppn: hostfile.MaxSlots + 1}); !exitcode.IsUsage(err) {
		t.Errorf("too many slots: %v", err)
	}
}

func TestBound(t *testing.T) {
	two := Selection{Hosts: []hostfile.Host{{Name: "a", Slots: 4}, {Name: "b", Slots: 2}}}
	for _, tc := range []struct{ np, low, high, want int }{
		{0, 0, 0, 0}, {3, 1, 2, 0}, {0, 1, 0, 6}, {0, 6, 8, 6}, {0, 2, 4, 4}, {0, 7, 0, -1}, {0, 7, 9, -1},
	} {
		p, err := bound(two, &settings.Options{NP: tc.np, Elastic: settings.ElasticOptions{MinNP: tc.low, MaxNP: tc.high}})
		if tc.want < 0 && !exitcode.IsUsage(err) || tc.want >= 0 && (err != nil || p.NP != tc.want) {
			t.Errorf("%+v: %d, %v", tc, p.NP, err)
		}
	}
}
