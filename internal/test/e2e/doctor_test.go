package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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
	if want := map[string]int{"ok": 0, "warnings": 1, "bad": 3}[d.Verdict]; code != want {
		c.t.Errorf("exit code %d, want %d: %+v", code, want, d)
	}
	r.NothingLeft(time.Minute)
	return d
}

// harm runs a script as root in the network and the mounts of a host.
func (c clinic) harm(host, script string) {
	c.t.Helper()
	cmd := exec.Command("nsenter", "-t", strconv.Itoa(c.Host(host).PID), "-n", "-m", "sh", "-ec", script)
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("%s: %s: %v: %s", host, script, err, out)
	}
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

func TestDoctorNamesPlantedFaults(t *testing.T) {
	lab.Need(t, "tc", "nft", "python3", "prlimit")
	torch := func(version string) map[string]string {
		return map[string]string{"site/torch-" + version +
			".dist-info/METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: " + version + "\n"}
	}
	old := lab.Spec{Shell: "/bin/bash", Files: torch("2.1.0")}
	old.Files[".bashrc"] = "echo welcome\n"
	ordinary := lab.Spec{Files: torch("2.5.1")}
	c := clinic{lab.MustNamespaces(t, ordinary, old, ordinary, ordinary, ordinary), t}

	must.OK(t, c.Lose(t.Context(), "f1", 2))
	c.harm("f3", "mount -o remount,size=1m /dev/shm")
	c.harm("f4", "mount -t tmpfs -o size=40k tmpfs /var/tmp")
	c.harm("f5", fmt.Sprintf("prlimit --pid %d --nofile=512:512", c.Host("f5").PID))
	hosts := filepath.Join(c.Dir, "hosts.empty")
	resolver := filepath.Join(c.Dir, "resolv.conf")
	for name, text := range map[string]string{hosts: "127.0.0.1 localhost\n", resolver: "nameserver 10.77.99.99\n"} {
		must.OK(t, os.WriteFile(name, []byte(text), 0o644))
	}
	c.harm("f5", fmt.Sprintf("mount --bind %s /etc/hosts; mount --bind %s /etc/resolv.conf", hosts, resolver))
	hog := c.On(t.Context(), "f3", "sh", "-c", "while :; do :; done")
	must.OK(t, hog.Start())
	c.until("--quick", func(d diagnosis) []string {
		complaints := slices.Concat(d.blames("f1", "loss", "lost"), d.blames("f2", "start files", "welcome"),
			d.blames("f2", "version of torch", "2.1.0"),
			d.blames("f3", "shm", "/dev/shm holds only 1 MiB"), d.blames("f3", "busy", "sh (pid"),
			d.blames("f4", "disk", "/var/tmp"),
			d.blames("f5", "limits", "512 files"), d.blames("f5", "dns", "looking up"))
		if want := []string{"f1", "f2", "f3", "f4", "f5"}; !slices.Equal(d.Bad, want) {
			complaints = append(complaints, fmt.Sprintf("bad are %v, want %v", d.Bad, want))
		}
		return complaints
	})
	_ = hog.Process.Kill()
	_ = hog.Wait()

	// A job is refused, or leaves them out.
	run := func(code int, flags ...string) (out, said string) {
		t.Helper()
		r := command.StartWithin(t, c.Cluster, doctorLimit, command.Binary("gorun"), nil,
			slices.Concat(flags, []string{"sh", "-c", "echo ran on $GORUN_HOSTNAME"})...)
		if got := r.Wait(); got != code {
			t.Errorf("%v: exit code %d, want %d:\n%s%s", flags, got, code, r.Out.String(), r.Err.String())
		}
		return r.Out.String(), r.Err.String()
	}
	if out, said := run(125, "--check-first=quick", "-np", "2", "-H", "f4:2,f3:2"); strings.Contains(out, "ran on") ||
		!strings.Contains(said, "bad host f3\n") || !strings.Contains(said, "--exclude-bad") {
		t.Errorf("%s%s", out, said)
	}
	if out, said := run(0, "--check-first=quick", "--exclude-bad", "-np", "2", "-H", "f4:2,f3:2"); strings.Count(out,
		"ran on f4") != 2 || !strings.Contains(said, "leaves out f3\n") {
		t.Errorf("%s%s", out, said)
	}
	// An elastic job starts with fewer ranks.
	if out, said := run(0, "--check-first=quick", "--exclude-bad", "-np", "4", "--min-np", "1", "-H",
		"f4:2,f3:2"); strings.Count(out, "ran on f4") != 2 || strings.Contains(out, "ran on f3") ||
		!strings.Contains(said, "leaves out f3\n") {
		t.Errorf("%s%s", out, said)
	}

	// One host in one direction, and one that large packets do not reach.
	must.OK(t, c.Unlose(t.Context(), "f1"))
	c.harm("f3", "tc qdisc add dev eth0 root tbf rate 200mbit burst 64kb latency 50ms")
	c.harm("f1", "nft add table inet hole; for way in input output; do nft add chain inet hole $way \"{ type filter "+
		"hook $way priority -300; }\"; nft add rule inet hole $way ip saddr != 10.77.0.10 ip daddr != 10.77.0.10 "+
		"meta length gt 1400 drop; done")
	c.until("--quick", func(d diagnosis) []string {
		return slices.Concat(d.blames("f1", "mtu", "black hole"), d.blames("f3", "bandwidth", "sends at"))
	})
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
