package main

import (
	"errors"
	"testing"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/launcher"
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
	plan, err := launcher.NewPlan(parsed, launcher.Request{})
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
		{"100%% %r|", two, 4, 1, "100% 4|"},
		{"%%r ", two, 4, 1, "%r "},
		{"%q%r", two, 4, 1, "%q4"},
	} {
		prefix, err := prefixer(tc.style, planOf(t, tc.hosts))
		if err != nil {
			t.Errorf("%q: %v", tc.style, err)
			continue
		}
		for range 2 { // the second time from memory
			if got := string(prefix(tc.rank, tc.fd)); got != tc.want {
				t.Errorf("%q, rank %d, fd %d: %q, want %q", tc.style, tc.rank, tc.fd, got, tc.want)
			}
		}
	}
}

func TestHostPrefixesLineUp(t *testing.T) {
	plan := planOf(t, "a:11,b.example.org:3,10.0.0.1")
	prefix, err := prefixer("host", plan)
	if err != nil {
		t.Fatal(err)
	}
	for rank := range plan.Size {
		if got, want := len(prefix(rank, 1)), len(prefix(0, 1)); got != want {
			t.Errorf("the prefix of rank %d is %d bytes wide, of rank 0 %d", rank, got, want)
		}
	}
}

func TestNoPrefix(t *testing.T) {
	prefix, err := prefixer("none", planOf(t, "a"))
	if prefix != nil || err != nil {
		t.Errorf("%v", err)
	}
	var usage *usageError
	if _, err := prefixer("fancy", planOf(t, "a")); !errors.As(err, &usage) || usage.Hint() == "" {
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
