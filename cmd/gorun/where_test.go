package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/hostfile"
)

func TestShape(t *testing.T) {
	hosts := func(text string) place {
		list, err := hostfile.ParseList(text)
		if err != nil {
			t.Fatal(err)
		}
		found, err := list.Hosts()
		if err != nil {
			t.Fatal(err)
		}
		return place{hosts: found, np: 9, source: "-H"}
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
		flags, o := flagSet()
		if err := flags.Parse(strings.Fields(tc.argv)); err != nil {
			t.Fatal(err)
		}
		before := hosts(tc.hosts)
		kept := slices.Clone(before.hosts)
		p, err := shape(before, o)
		var got []string
		for _, h := range p.hosts {
			got = append(got, fmt.Sprintf("%s:%d", h.Name, h.Slots))
		}
		if err != nil || strings.Join(got, " ") != tc.want || p.np != tc.np || !slices.Equal(kept, before.hosts) {
			t.Errorf("%s %s: %q, np %d, %v", tc.hosts, tc.argv, got, p.np, err)
		}
	}
	if _, err := shape(hosts("a"), &runOptions{nodes: 2}); !isUsage(err) || !strings.Contains(err.Error(), "there is 1 host, from -H") {
		t.Errorf("too few hosts: %v", err)
	}
	if _, err := shape(hosts("a"), &runOptions{ppn: hostfile.MaxSlots + 1}); !isUsage(err) {
		t.Errorf("too many slots: %v", err)
	}
}

func TestBound(t *testing.T) {
	two := place{hosts: []hostfile.Host{{Name: "a", Slots: 4}, {Name: "b", Slots: 2}}}
	for _, tc := range []struct{ np, low, high, want int }{
		{0, 0, 0, 0}, {3, 1, 2, 0}, {0, 1, 0, 6}, {0, 6, 8, 6}, {0, 2, 4, 4}, {0, 7, 0, -1}, {0, 7, 9, -1},
	} {
		p, err := bound(two, &runOptions{np: tc.np, elastic: elasticOptions{minNP: tc.low, maxNP: tc.high}})
		if tc.want < 0 && !isUsage(err) || tc.want >= 0 && (err != nil || p.np != tc.want) {
			t.Errorf("%+v: %d, %v", tc, p.np, err)
		}
	}
}
