package e2e

import (
	"fmt"
	"net/netip"
	"os"
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
	"github.com/gorun/gorun/internal/tools/link"
)

// ward is a clinic whose hosts have a second, emulated network, wan0.
type ward struct {
	clinic
	network *link.Network
	ports   []*link.Port
}

// wide is what every host of a ward has on wan0. It is narrow enough for a busy machine to carry.
func wide() link.Line { return link.Line{Rate: 200e6} }

// newWard starts hosts that have torch by name only.
func newWard(t *testing.T, hosts int) *ward {
	lab.Need(t, "tc", "nft", "python3", "prlimit")
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		lab.Skip(t, "no TAP interfaces: "+err.Error())
	}
	var specs []lab.Spec
	for range hosts {
		specs = append(specs, lab.Spec{Shell: "/bin/bash",
			Files: map[string]string{".bashrc": "", "site/torch-2.5.1.dist-info/METADATA": metadata("2.5.1")}})
	}
	w := &ward{clinic: clinic{lab.MustNamespaces(t, specs...), t}}
	w.network = must.Get(link.New(1))(t)
	t.Cleanup(func() { check.OK(t, w.network.Close()) })
	for i, h := range w.Hosts {
		port := must.Get(w.network.Join(fmt.Sprintf("/proc/%d/ns/net", h.PID), "wan0",
			netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 90, 0, byte(i + 1)}), 24)))(t)
		port.Out(wide())
		port.In(wide())
		w.ports = append(w.ports, port)
	}
	return w
}

func metadata(version string) string {
	return "Metadata-Version: 2.1\nName: torch\nVersion: " + version + "\n"
}

// plantedFault is a way to make one host bad, and how gorun doctor names it.
type plantedFault struct {
	name       string
	wan        bool // it is on wan0
	plant      func(w *ward, host int) (heal func())
	kind, word string
}

// shape changes both directions of a host's wan0.
func shape(change func(out, in *link.Line)) func(w *ward, host int) func() {
	return func(w *ward, host int) func() {
		out := wide()
		in := wide()
		change(&out, &in)
		w.ports[host].Out(out)
		w.ports[host].In(in)
		return func() {
			w.ports[host].Out(wide())
			w.ports[host].In(wide())
		}
	}
}

// scripts plants and heals by shell scripts in a host's network and mounts.
func scripts(plant, heal string) func(w *ward, host int) func() {
	return func(w *ward, host int) func() {
		name := w.Hosts[host].Name
		fill := strings.NewReplacer("PID", strconv.Itoa(w.Hosts[host].PID), "NAME", name, "HOME",
			filepath.Join(w.Dir, "home"), "DIR", w.Dir)
		w.harm(name, fill.Replace(plant))
		return func() { w.harm(name, fill.Replace(heal)) }
	}
}

// plantedFaults are all but a wrong clock (TestWrongClockAndSlowHostAreNamed) and those of GPUs
// (TestScripts/doctor_gpus).
func plantedFaults() []plantedFault {
	return []plantedFault{
		{"delay of 5 ms", true, shape(func(out, _ *link.Line) {
			out.Delay = 5 * time.Millisecond
		}), "latency", "round trip"},
		{"1 % of packets lost", true, shape(func(out, in *link.Line) {
			out.Loss = 0.01
			in.Loss = 0.01
		}), "loss", "lost"},
		{"half the rate", true, shape(func(out, in *link.Line) {
			out.Rate = out.Rate / 2
			in.Rate = in.Rate / 2
		}),
			"bandwidth", "sends"},
		{"half the rate, in one direction", true, shape(func(_, in *link.Line) {
			in.Rate /= 2
		}), "bandwidth", "receives at"},
		{"MTU black hole", false, scripts(
			"nft add table inet hole; for way in input output; do nft add chain inet hole $way \"{ type filter hook "+
				"$way priority -300; }\"; nft add rule inet hole $way iifname != lo oifname != lo "+
				"ip saddr != 10.77.0.10 ip daddr != 10.77.0.10 meta length gt 1400 drop; done",
			"nft delete table inet hole"), "mtu", "black hole"},
		{"CPU quota of half", false, quotaOfHalf, "quota", "cores"},
		{"CPU hog", false, hog, "busy", "sh (pid"},
		{"full /tmp", false, scripts("mount -t tmpfs -o size=40k tmpfs /var/tmp", "umount /var/tmp"), "disk",
			"/var/tmp"},
		{"tiny /dev/shm", false, scripts("mount -o remount,size=1m /dev/shm", "mount -o remount,size=50% /dev/shm"),
			"shm", "/dev/shm holds only 1 MiB"},
		{"low nofile", false, scripts("prlimit --pid PID --nofile=512:", "prlimit --pid PID --nofile=20000:"), "limits",
			"512 files"},
		{"another torch", false, scripts("sed -i s/2.5.1/2.1.0/ HOME/site/torch-2.5.1.dist-info/METADATA",
			"sed -i s/2.1.0/2.5.1/ HOME/site/torch-2.5.1.dist-info/METADATA"), "version of torch", "2.1.0"},
		{"noisy .bashrc", false, scripts("echo 'echo welcome' >HOME/.bashrc", ": >HOME/.bashrc"), "start files",
			"welcome"},
		// The host keeps the files that are mounted; each has its own.
		{"slow DNS", false, scripts("cat /etc/resolv.conf >DIR/NAME.resolv; cat /etc/hosts >DIR/NAME.hosts; echo "+
			"nameserver 10.77.99.99 >DIR/NAME.no-resolv; echo 127.0.0.1 localhost >DIR/NAME.no-hosts; mount --bind "+
			"DIR/NAME.no-hosts /etc/hosts; mount --bind DIR/NAME.no-resolv /etc/resolv.conf",
			"cat DIR/NAME.hosts >/etc/hosts; cat DIR/NAME.resolv >/etc/resolv.conf"), "dns", "looking up"},
	}
}

// quotaOfHalf puts a host into a cgroup that may use half of the machine's cores.
func quotaOfHalf(w *ward, host int) func() {
	cores := 0
	period := 100_000
	fmt.Sscan(w.output("nproc"), &cores)
	top := "/sys/fs/cgroup/cpu"
	limit := "cpu.cfs_quota_us"
	value := strconv.Itoa(cores * period / 2)
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		top = "/sys/fs/cgroup"
		limit = "cpu.max"
		value = fmt.Sprintf("%d %d", cores*period/2, period)
	}
	group := filepath.Join(top, "gorun-doctor-"+filepath.Base(w.Dir))
	if err := os.Mkdir(group, 0o755); err != nil {
		lab.Skip(w.t, "no cgroup can be made: "+err.Error())
	}
	write := func(name, text string) { must.OK(w.t, os.WriteFile(name, []byte(text), 0)) }
	write(filepath.Join(group, limit), value)
	write(filepath.Join(group, "cgroup.procs"), strconv.Itoa(w.Hosts[host].PID))
	heal := func() {
		write(filepath.Join(top, "cgroup.procs"), strconv.Itoa(w.Hosts[host].PID))
		must.Until(w.t, "the end of the last processes there", func() bool {
			err := os.Remove(group)
			return err == nil || os.IsNotExist(err)
		})
	}
	return heal
}

// hog keeps a core busy on a host.
func hog(w *ward, host int) func() {
	cmd := w.On(w.t.Context(), w.Hosts[host].Name, "sh", "-c", "while :; do :; done")
	must.OK(w.t, cmd.Start())
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// output is what a program of this machine prints.
func (w *ward) output(argv ...string) string {
	out := must.Get(w.Command(w.t.Context(), argv...).Output())(w.t)
	return string(out)
}

func (w *ward) flags(f plantedFault) []string {
	if f.wan {
		return []string{"--network-interface", "wan0"}
	}
	return nil
}

// planted is a fault of plantedFaults on a host.
type planted struct {
	fault string
	host  int
}

// together plants faults until gorun doctor names each, and no other host is called bad.
func (w *ward) together(list ...planted) (heal func()) {
	w.t.Helper()
	var faults []plantedFault
	var heals []func()
	var bad []string
	for _, p := range list {
		i := slices.IndexFunc(plantedFaults(), func(f plantedFault) bool { return f.name == p.fault })
		faults = append(faults, plantedFaults()[i])
		heals = append(heals, faults[len(faults)-1].plant(w, p.host))
		bad = append(bad, w.Hosts[p.host].Name)
	}
	bad = slices.Compact(slices.Sorted(slices.Values(bad)))
	w.until("--quick --network-interface wan0", func(d diagnosis) (complaints []string) {
		for i, f := range faults {
			complaints = append(complaints, d.blames(w.Hosts[list[i].host].Name, f.kind, f.word)...)
		}
		if !slices.Equal(d.Bad, bad) {
			complaints = append(complaints, fmt.Sprintf("bad are %v, want %v", d.Bad, bad))
		}
		return complaints
	})
	return func() {
		for _, heal := range heals {
			heal()
		}
	}
}

// Every planted fault is named with its host and cause, and no other host is called bad. Jobs leave
// bad hosts out. Several are planted together; make doctor-faults N=20 plants each alone N times.
func TestDoctorNamesPlantedFaults(t *testing.T) {
	w := newWard(t, 5)
	if n, _ := strconv.Atoi(os.Getenv("DOCTOR_FAULTS")); n > 0 {
		w.sweep(n)
		return
	}
	w.together(planted{"delay of 5 ms", 1}, planted{"half the rate, in one direction", 3},
		planted{"CPU quota of half", 4})()
	w.together(planted{"MTU black hole", 0})()
	w.together(planted{"half the rate", 2})()
	heal := w.together(planted{"1 % of packets lost", 0}, planted{"noisy .bashrc", 1}, planted{"another torch", 1},
		planted{"tiny /dev/shm", 2}, planted{"CPU hog", 2}, planted{"full /tmp", 3}, planted{"low nofile", 4},
		planted{"slow DNS", 4})
	for _, tc := range []struct {
		flags     []string
		code, ran int
		says      []string
	}{
		{[]string{"-np", "2"}, 125, 0, []string{"bad host f3\n", "--exclude-bad"}},
		{[]string{"--exclude-bad", "-np", "2"}, 0, 2, []string{"leaves out f3\n"}},
		// An elastic job starts with fewer ranks.
		{[]string{"--exclude-bad", "-np", "4", "--min-np", "1"}, 0, 2, []string{"leaves out f3\n"}},
	} {
		r := command.StartWithin(t, w.Cluster, doctorLimit, command.Binary("gorun"), nil,
			slices.Concat([]string{"--check-first=quick", "-H", "f4:2,f3:2"}, tc.flags,
				[]string{"sh", "-c", "echo ran on $GORUN_HOSTNAME"})...)
		r.Want(tc.code, tc.says...)
		out := r.Out.String()
		check.That(t, strings.Count(out, "ran on f4") == tc.ran && strings.Count(out, "ran on") == tc.ran,
			"%q: %s", tc.flags, out)
	}
	heal()
}

// sweep plants each fault n times and counts how often it is named, and prints a table.
func (w *ward) sweep(n int) {
	level := os.Getenv("DOCTOR_LEVEL")
	if level == "" {
		level = "--quick"
	}
	only := os.Getenv("DOCTOR_ONLY")
	fmt.Printf("| planted | named | another host called bad | other warnings |\n|---|---|---|---|\n")
	for _, wan := range []bool{false, true} {
		if only != "" && !strings.Contains("nothing", only) {
			break
		}
		alarms := 0
		warnings := 0
		for range n {
			d := w.examine(append(w.flags(plantedFault{wan: wan}), level)...)
			if len(d.Bad) > 0 {
				alarms++
			}
			if d.Verdict == "warnings" {
				warnings++
			}
			if d.Verdict != "ok" {
				w.t.Logf("healthy: %+v", d.Findings)
			}
		}
		fmt.Printf("| nothing%s | | %d of %d | %d of %d |\n", map[bool]string{true: ", on the emulated network"}[wan],
			alarms, n, warnings, n)
		check.That(w.t, alarms <= 0, "healthy hosts are called bad %d times of %d", alarms, n)
	}
	for _, f := range plantedFaults() {
		if only != "" && !strings.Contains(f.name, only) {
			continue
		}
		named := 0
		alarms := 0
		warnings := 0
		for i := range n {
			at := i % len(w.Hosts)
			host := w.Hosts[at].Name
			heal := f.plant(w, at)
			d := w.examine(append(w.flags(f), level)...)
			heal()
			if missing := d.blames(host, f.kind, f.word); len(missing) == 0 {
				named++
			} else {
				w.t.Logf("%s on %s: %v: %+v\n%+v", f.name, host, missing, d.Findings, d.Links)
			}
			if slices.ContainsFunc(d.Bad, func(b string) bool { return b != host }) {
				alarms++
				w.t.Logf("%s on %s: bad are %v: %+v", f.name, host, d.Bad, d.Findings)
			}
			if slices.ContainsFunc(d.Findings, func(x finding) bool { return x.Host != host }) {
				warnings++
			}
		}
		fmt.Printf("| %s | %d of %d | %d | %d |\n", f.name, named, n, alarms, warnings)
		check.That(w.t, named >= n && alarms <= 0,
			"%s: named %d times of %d, and another host called bad %d times", f.name, named, n, alarms)
	}
}
