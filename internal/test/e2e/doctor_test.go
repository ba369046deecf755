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
	Findings []struct{ Host, With, Severity, Kind, Text, Fix string }
	Links    []json.RawMessage
	said     string
}

// doctorLimit is generous: the machine that tests is busy.
const doctorLimit = 4 * time.Minute

// examine runs gorun doctor on all hosts.
func (c clinic) examine(want string, flags ...string) (d diagnosis) {
	c.t.Helper()
	var names []string
	for _, h := range c.Hosts {
		names = append(names, h.Name)
	}
	site := filepath.Join(c.Dir, "home", "site")
	argv := []string{"doctor", "--json", "-x", "TMPDIR=/var/tmp", "-x", "PYTHONPATH=" + site, "-H", strings.Join(names, ",")}
	r := command.StartWithin(c.t, c.Cluster, doctorLimit, command.Binary("gorun"), nil, slices.Concat(argv, flags)...)
	code := r.Wait()
	d.said = r.Err.String()
	if err := json.Unmarshal([]byte(r.Out.String()), &d); err != nil {
		c.t.Fatalf("%v: exit code %d\n%s%s", err, code, r.Out.String(), r.Err.String())
	}
	if fmt.Sprint(code) != want {
		c.t.Errorf("exit code %d, want %s: %+v", code, want, d)
	}
	r.NothingLeft(10 * time.Second)
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

// blames requires a finding about a host of a kind whose text contains a word, and that no other host has a finding of this kind.
func (d diagnosis) blames(t *testing.T, host, kind, word string) {
	t.Helper()
	found := false
	for _, f := range d.Findings {
		if f.Kind != kind {
			continue
		}
		if f.Host != host || f.With != "" {
			t.Errorf("%s is blamed for %s: %s", f.Host, kind, f.Text)
		}
		found = found || f.Host == host && strings.Contains(f.Text, word) && f.Fix != ""
	}
	if !found {
		t.Errorf("%s is not blamed for %s: %+v", host, kind, d.Findings)
	}
}

func TestDoctorNamesPlantedFaults(t *testing.T) {
	lab.Need(t, "tc", "nft", "python3", "prlimit")
	torch := func(version string) map[string]string {
		return map[string]string{"site/torch-" + version + ".dist-info/METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: " + version + "\n"}
	}
	old := lab.Spec{Shell: "/bin/bash", Files: torch("2.1.0")}
	old.Files[".bashrc"] = "echo welcome\n"
	ordinary := lab.Spec{Files: torch("2.5.1")}
	c := clinic{lab.MustNamespaces(t, ordinary, old, ordinary, ordinary, ordinary), t}

	if err := c.Lose(t.Context(), "f1", 2); err != nil {
		t.Fatal(err)
	}
	c.harm("f3", "mount -o remount,size=1m /dev/shm")
	c.harm("f4", "mount -t tmpfs -o size=40k tmpfs /var/tmp")
	c.harm("f5", fmt.Sprintf("prlimit --pid %d --nofile=512:512", c.Host("f5").PID))
	hosts := filepath.Join(c.Dir, "hosts.empty")
	resolver := filepath.Join(c.Dir, "resolv.conf")
	for name, text := range map[string]string{hosts: "127.0.0.1 localhost\n", resolver: "nameserver 10.77.99.99\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c.harm("f5", fmt.Sprintf("mount --bind %s /etc/hosts; mount --bind %s /etc/resolv.conf", hosts, resolver))
	hog := c.On(t.Context(), "f3", "sh", "-c", "while :; do :; done")
	if err := hog.Start(); err != nil {
		t.Fatal(err)
	}
	d := c.examine("3", "--quick")
	_ = hog.Process.Kill()
	_ = hog.Wait()
	d.blames(t, "f1", "loss", "lost")
	d.blames(t, "f2", "start files", "welcome")
	d.blames(t, "f2", "version of torch", "2.1.0")
	d.blames(t, "f3", "shm", "/dev/shm holds only 1 MiB")
	d.blames(t, "f3", "busy", "sh (pid")
	d.blames(t, "f4", "disk", "/var/tmp")
	d.blames(t, "f5", "limits", "512 files")
	d.blames(t, "f5", "dns", "looking up")
	if want := []string{"f1", "f2", "f3", "f4", "f5"}; !slices.Equal(d.Bad, want) {
		t.Errorf("bad are %v, want %v", d.Bad, want)
	}

	// One host in one direction, and one that large packets do not reach.
	if err := c.Unlose(t.Context(), "f1"); err != nil {
		t.Fatal(err)
	}
	c.harm("f3", "tc qdisc add dev eth0 root tbf rate 200mbit burst 64kb latency 50ms")
	c.harm("f1", "nft add table inet hole; for way in input output; do nft add chain inet hole $way \"{ type filter hook $way priority -300; }\"; nft add rule inet hole $way ip saddr != 10.77.0.10 ip daddr != 10.77.0.10 meta length gt 1400 drop; done")
	d = c.examine("3", "--quick")
	d.blames(t, "f1", "mtu", "black hole")
	d.blames(t, "f3", "bandwidth", "sends at")
}

func TestDoctorFindsHealthyHostsOk(t *testing.T) {
	c := clinic{lab.MustNamespaces(t, lab.Specs(4)...), t}
	if d := c.examine("0", "--quick"); d.Verdict != "ok" || len(d.Findings) > 0 || len(d.Links) != 6 {
		t.Errorf("%+v", d)
	}
}
