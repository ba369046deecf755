package hostfile

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

const others = "a slots=4\nb.example.com slots=2\nu@c slots=2 port=22\nd slots=auto\nc slots=1\n"

func selected(t *testing.T, list string) ([]Host, error) {
	t.Helper()
	from, err := parse(others)
	if err != nil {
		t.Fatal(err)
	}
	l, err := ParseList(list)
	if err != nil {
		t.Fatal(err)
	}
	return l.Select(from, "the file")
}

func TestSelect(t *testing.T) {
	for list, want := range map[string]string{
		"a":                 "a slots=4",
		"a:3":               "a slots=3",
		"a,a":               "a slots=2",
		"a:2,a:2":           "a slots=4",
		"b.example.com,a:1": "b.example.com slots=2;a slots=1",
		"u@c":               "u@c slots=2 port=22",
		"c":                 "c slots=1",
		"v@a":               "v@a slots=4",
		"d":                 "d slots=auto",
		"d:7":               "d slots=7",
		"a:auto":            "a slots=auto",
		"a:auto,a:*":        "a slots=auto",
		"^a,^d":             "b.example.com slots=2;u@c slots=2 port=22;c slots=1",
		"a,d,^a":            "d slots=auto",
		"a,^nobody":         "a slots=4",
		"nobody,a,^nobody":  "a slots=4",
		"+n1,+N0":           "b.example.com slots=2;a slots=4",
		"+n0,+n0":           "a slots=4",
		"a:1,+n0":           "a slots=4",
		"a,+e":              "a slots=4;b.example.com slots=2;u@c slots=2 port=22;d slots=auto;c slots=1",
		"+n1,+e:1":          "b.example.com slots=2;a slots=4",
		"+e,^c":             "a slots=4;b.example.com slots=2;d slots=auto",
	} {
		got, err := selected(t, list)
		if text := strings.ReplaceAll(strings.TrimSpace(Format(got)), "\n", ";"); err != nil || text != want {
			t.Errorf("%q chooses %q, %v; want %q", list, text, err, want)
		}
	}
}

func TestSelectErrors(t *testing.T) {
	for list, want := range map[string]string{
		"a,b":        `-H:3: "b": the file has no host b`,
		"A":          `the file has no host A`,
		"f[1-2]":     `-H:1: "f[1-2]": the file has no host f1`,
		"v@u":        `the file has no host u`,
		"a:5":        `-H:1: "a:5": 5 slots asked for, but the file has 4 for this host; ask for at most 4`,
		"a:3,a:2":    `5 slots asked for`,
		"+n5":        `-H:1: "+n5": the file has the hosts +n0 to +n4`,
		"+n0,+e:9":   `-H:5: "+e:9": the file has 4 more hosts`,
		"a,^a":       `-H: no host of the file is left`,
		"a:2,a:auto": `-H:5: "a:auto": this host has a number of slots in one place`,
	} {
		got, err := selected(t, list)
		var fault *ParseError
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), want) || got != nil {
			t.Errorf("%q chooses %v, %v; want an error with %s", list, got, err, want)
		}
	}
	_, err := selected(t, "b")
	var absent *AbsentError
	if !errors.As(err, &absent) || absent.Host != "b" || !slices.Equal(absent.Have, []string{"a", "b.example.com", "c", "d", "c"}) {
		t.Errorf("%#v", err)
	}
}

// A hostfile may choose from an allocation, too, and add what it knows of the hosts.
func TestSelectByFile(t *testing.T) {
	list, err := Parse("f", strings.NewReader("+n0\nb.example.com port=2222 user=u max_slots=1 gpus=2\n"))
	if err != nil || !list.Relative() {
		t.Fatal(list, err)
	}
	from, _ := parse(others)
	got, err := list.Select(from, "x")
	if want := "a slots=4\nu@b.example.com slots=1 max_slots=1 gpus=2 port=2222\n"; err != nil || Format(got) != want {
		t.Errorf("%s, %v", Format(got), err)
	}
}

func TestRelative(t *testing.T) {
	for list, want := range map[string]bool{"a": false, "a,^a": false, "^a": true, "+n0": true, "a,+e": true} {
		if l, err := ParseList(list); err != nil || l.Relative() != want {
			t.Errorf("%q: %v, %v", list, l.Relative(), err)
		}
	}
}

// Choosing takes its time from how many hosts there are, not from its square.
func TestSelectOfManyHosts(t *testing.T) {
	list, err := ParseList("f[1-60000]:2")
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := list.Hosts()
	if err != nil || len(hosts) != 60000 {
		t.Fatal(len(hosts), err)
	}
	if got, err := list.Select(hosts, "x"); err != nil || !slices.Equal(got, hosts) {
		t.Error(len(got), err)
	}
}
