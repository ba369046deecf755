package hostfile

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/must"
)

const others = "a slots=4\nb.example.com slots=2\nu@c slots=2 port=22\nd slots=auto\nc slots=1\n"

func selected(t *testing.T, list string) ([]Host, error) {
	t.Helper()
	from := must.Get(parse(others))(t)
	l := must.Get(ParseList(list))(t)
	return l.Select(from, "the file")
}

func TestSelect(t *testing.T) {
	golden.Cases(t, "testdata/select.txt", func(list string) (string, error) {
		got, err := selected(t, list)
		var fault *ParseError
		check.That(t, err == nil || errors.As(err, &fault) && got == nil, "%q: %v, %v", list, got, err)
		return strings.ReplaceAll(strings.TrimSpace(Format(got)), "\n", "; "), err
	})
	_, err := selected(t, "b")
	var absent *AbsentError
	check.That(t, errors.As(err, &absent) && absent.Host == "b" &&
		slices.Equal(absent.Have, []string{"a", "b.example.com", "c", "d", "c"}),
		"%#v", err)
}

// A hostfile may choose from an allocation, too, and add what it knows of the hosts.
func TestSelectByFile(t *testing.T) {
	list, err := Parse("f", strings.NewReader("+n0\nb.example.com port=2222 user=u max_slots=1 gpus=2\n"))
	if err != nil || !list.Relative() {
		t.Fatal(list, err)
	}
	from, _ := parse(others)
	got, err := list.Select(from, "x")
	want := "a slots=4\nu@b.example.com slots=1 max_slots=1 gpus=2 port=2222\n"
	check.That(t, err == nil && Format(got) == want, "%s, %v", Format(got), err)
}

func TestRelative(t *testing.T) {
	for list, want := range map[string]bool{"a": false, "a,^a": false, "^a": true, "+n0": true, "a,+e": true} {
		l, err := ParseList(list)
		check.That(t, err == nil && l.Relative() == want, "%q: %v, %v", list, l.Relative(), err)
	}
}

// Choosing takes its time from how many hosts there are, not from its square.
func TestSelectOfManyHosts(t *testing.T) {
	list := must.Get(ParseList("f[1-60000]:2"))(t)
	hosts, err := list.Hosts()
	if err != nil || len(hosts) != 60000 {
		t.Fatal(len(hosts), err)
	}
	if got, err := list.Select(hosts, "x"); err != nil || !slices.Equal(got, hosts) {
		t.Error(len(got), err)
	}
}
