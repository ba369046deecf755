package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// clinic is a lab whose hosts gorun doctor examines.
type clinic struct {
	*lab.Cluster
	t *testing.T
}

// diagnosis is what gorun doctor --json says.
type diagnosis struct {
	Verdict  string
	Bad      []string
	Findings []finding
	Links    []struct {
		From, To     int
		RTT, Out, In float64
		Stalled      string
	}
}

type finding struct{ Host, With, Severity, Kind, Text, Fix string }

// doctorLimit is generous: the machine that tests is busy.
const doctorLimit = 4 * time.Minute

// examine runs gorun doctor on all hosts.
func (c clinic) examine(flags ...string) (d diagnosis) {
	c.t.Helper()
	var names []string
	for _, h := range c.Hosts {
		names = append(names, h.Name)
	}
	site := filepath.Join(c.Dir, "home", "site")
	argv := []string{"doctor", "--json", "-x", "TMPDIR=/var/tmp", "-x", "PYTHONPATH=" + site, "-H",
		strings.Join(names, ",")}
	r := command.StartWithin(c.t, c.Cluster, doctorLimit, command.Binary("gorun"), nil, slices.Concat(argv, flags)...)
	code := r.Wait()
	if err := json.Unmarshal([]byte(r.Out.String()), &d); err != nil {
		c.t.Fatalf("%v: exit code %d\n%s%s", err, code, r.Out.String(), r.Err.String())
	}
	want := map[string]int{"ok": 0, "warnings": 1, "bad": 3}[d.Verdict]
	check.That(c.t, code == want, "exit code %d, want %d: %+v", code, want, d)
	r.NothingLeft(time.Minute)
	return d
}

// harm runs a script as root in the network and the mounts of a host.
func (c clinic) harm(host, script string) {
	c.t.Helper()
	cmd := exec.Command("nsenter", "-t", strconv.Itoa(c.Host(host).PID), "-n", "-m", "sh", "-ec", script)
	out, err := cmd.CombinedOutput()
	must.That(c.t, err == nil, "%s: %s: %v: %s", host, script, err, out)
}

// attempts is how often an examination may be wrong because the machine that tests is too busy to
// measure anything.
const attempts = 5

// until examines hosts until the findings are as expected.
func (c clinic) until(level string, right func(d diagnosis) (complaints []string)) {
	c.t.Helper()
	for n := 1; ; n++ {
		d := c.examine(strings.Fields(level)...)
		complaints := right(d)
		if len(complaints) == 0 {
			return
		}
		if text := fmt.Sprintf("attempt %d: %s\n%+v", n, strings.Join(complaints, "\n"), d); n < attempts {
			c.t.Log(text)
		} else {
			c.t.Fatal(text)
		}
	}
}

// blames returns what is missing of a finding about a host of a kind whose text contains a word,
// where no other host has a finding of this kind.
func (d diagnosis) blames(host, kind, word string) (complaints []string) {
	found := false
	for _, f := range d.Findings {
		if f.Kind != kind {
			continue
		}
		if f.Host != host || f.With != "" {
			complaints = append(complaints, fmt.Sprintf("%s is blamed for %s: %s", f.Host, kind, f.Text))
		}
		found = found || f.Host == host && strings.Contains(f.Text, word) && f.Fix != ""
	}
	if !found {
		complaints = append(complaints, fmt.Sprintf("%s is not blamed for %s", host, kind))
	}
	return complaints
}

func TestDoctorFindsHealthyHostsOk(t *testing.T) {
	c := clinic{lab.MustNamespaces(t, lab.Specs(4)...), t}
	c.until("--quick", func(d diagnosis) (complaints []string) {
		if d.Verdict != "ok" || len(d.Findings) > 0 || len(d.Links) != 6 {
			complaints = append(complaints, "the hosts are not ok")
		}
		return complaints
	})
}
