package hosts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/cli/settings"
)

func TestCountCores(t *testing.T) {
	var asked []string
	s := around(nil, nil)
	s.count = func(_ context.Context, hosts []hostfile.Host) (cores []int, err error) {
		for _, h := range hosts {
			asked = append(asked, h.Name)
			cores = append(cores, map[string]int{"a": 16, "b": 1, "c": 1 << 20}[h.Name])
		}
		return cores, nil
	}
	for _, tc := range []struct {
		hosts   string
		perRank int
		want    string // slots
		asked   string
	}{
		{"a:2,here:3", 0, "2 3", ""},
		{"here:auto,a:2", 0, "6 2", ""},
		{"a:auto,here:*,b:auto,c:2", 0, "16 6 1 2", "a b"},
		{"a:auto,here:auto,b:auto", 4, "4 1 1", "a b"},
		{"c:auto", 0, fmt.Sprint(hostfile.MaxSlots), "c"},
	} {
		asked = nil
		p, err := findHosts(&settings.Options{Hosts: tc.hosts}, s)
		if err != nil {
			t.Fatal(err)
		}
		before := fmt.Sprint(p.Hosts)
		got, err := s.countCores(t.Context(), p, tc.perRank)
		var slots []string
		for _, h := range got.Hosts {
			slots = append(slots, fmt.Sprint(h.Slots))
		}
		if err != nil || strings.Join(slots, " ") != tc.want || strings.Join(asked, " ") != tc.asked || fmt.Sprint(p.Hosts) != before {
			t.Errorf("%s, %d cores a rank: slots %v, asked %v, %v", tc.hosts, tc.perRank, slots, asked, err)
		}
	}
	limited := hostfile.Host{Name: "a", Slots: 1, MaxSlots: 4, Auto: true}
	if got := autoSlots(limited, 16, 1); got != 4 {
		t.Errorf("%+v with 16 cores gets %d slots", limited, got)
	}
	s.count = func(context.Context, []hostfile.Host) ([]int, error) { return nil, errors.New("gone") }
	if _, err := s.countCores(t.Context(), Selection{Hosts: []hostfile.Host{limited}}, 0); err == nil {
		t.Error("a host that does not answer is no error")
	}
}
