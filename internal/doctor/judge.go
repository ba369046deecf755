package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/prose"
)

const (
	mib = 1 << 20
	gib = 1 << 30

	undisturbed = 0.7 // share of time: a probe that had its cores for less measured other programs

	manyKeys = 3 // refused user keys that are worth a warning
)

// Judge returns the findings, most severe first.
func Judge(m Measured) []Finding {
	j := &judge{Measured: m, reported: map[processOf]bool{}}
	for _, name := range m.Names {
		j.host(name, m.Hosts[name])
	}
	j.unexamined()
	j.differences()
	j.gpus()
	j.compareHosts()
	j.network()
	order(j.findings, m.Names)
	return j.findings
}

type judge struct {
	Measured
	findings []Finding
	reported map[processOf]bool // busy processes that were reported
}

type processOf struct {
	machine string
	pid     int
	started int64
}

func (j *judge) add(f Finding) { j.findings = append(j.findings, f) }

// is adds a finding about a fact.
func (j *judge) is(host string, s Severity, kind, fix, format string, args ...any) {
	j.add(about(host, s, kind, fix, format, args...))
}

// timed adds a finding that chance may cause.
func (j *judge) timed(f Finding) {
	f.timing = true
	f.metric = cmp.Or(f.metric, f.Kind)
	f.better = slices.Contains([]string{"latency", "bandwidth", "loss", "memory speed", "cpu speed", "login", "fsync",
		"steal", "dns", "clock", "contention"}, f.Kind)
	j.add(f)
}

// host judges one host by itself.
func (j *judge) host(name string, h Host) {
	if h.Error != "" {
		j.is(name, Bad, "unreachable", h.Hint, "%s", h.Error)
		return
	}
	if h.Login != nil {
		j.login(name, *h.Login)
	}
	if h.Unexamined {
		return
	}
	if !h.Finished {
		doing := "before it said anything"
		switch {
		case h.Speed != nil:
			doing = "while it measured the network"
		case h.Facts != nil:
			doing = "while it measured its speed"
		}
		j.is(name, Bad, "hang", "log in and look at it: dmesg, top, mount",
			"its examination did not end: it stopped %s", doing)
	}
	if h.Facts == nil {
		return
	}
	f := h.Facts
	j.disk(name, f.Shm, "the ranks of a host share memory through it: mount -o remount,size=50% /dev/shm, or "+
		"--shm-size of the container")
	if f.Shm.Error == "" && f.Shm.Size >= 64*mib && f.Shm.Size < gib {
		j.is(name, Warning, "shm", "mount -o remount,size=50% /dev/shm", "/dev/shm holds only %s", size(f.Shm.Size))
	}
	for _, d := range f.Disks {
		j.disk(name, d, "free space there: du -x "+prose.Quoted(d.Path)+" | sort -n | tail")
	}
	if n, known := f.Limits["nofile"]; known && n < 1024 {
		j.is(name, Bad, "limits", "raise it in /etc/security/limits.conf or the unit of sshd: nofile 65536",
			"a process may open only %d files (ulimit -n)", n)
	}
	if n, known := f.Limits["nproc"]; known && n < 1024 {
		j.is(name, Warning, "limits", "raise it in /etc/security/limits.conf: nproc",
			"a user may have only %d processes (ulimit -u)", n)
	}
	if n, known := f.Limits["memlock"]; known && f.Infiniband && n < gib {
		j.is(name, Warning, "limits", "raise it in /etc/security/limits.conf: memlock unlimited",
			"a process may lock only %s of memory, which is too little for InfiniBand (ulimit -l)", size(int64(n)))
	}
	if f.Memory > 0 && f.Available*20 < f.Memory {
		j.is(name, Warning, "memory", "end what uses it: ps aux --sort -rss", "only %s of %s of memory are available",
			size(f.Available), size(f.Memory))
	}
	if f.SwapUsed > gib && f.Available*10 < f.Memory {
		j.is(name, Warning, "memory", "end what uses memory: ps aux --sort -rss",
			"it swaps: %s are swapped out, and %s of memory are left", size(f.SwapUsed), size(f.Available))
	}
	j.nodes(name, f.NodeMemory)
	if f.Throttles > 0 {
		j.timed(about(name, Warning, "throttling", "look at fans and power: sensors, ipmitool sdr",
			"the processor was throttled %s for its temperature", prose.Count(int(f.Throttles), "time")))
	}
	j.busy(name, f)
	if f.DNS.Seconds >= 1 {
		j.timed(about(name, Warning, "dns", "look at /etc/resolv.conf, or name the address in /etc/hosts",
			"looking up the name of its address %s takes %.1f s", f.DNS.Address, f.DNS.Seconds))
	}
}

// those returns the names of the hosts that something holds for.
func (j *judge) those(holds func(Host) bool) (names []string) {
	for _, name := range j.Names {
		if holds(j.Hosts[name]) {
			names = append(names, name)
		}
	}
	return names
}

// unexamined names the hosts of which nothing is known.
func (j *judge) unexamined() {
	if names := j.those(func(h Host) bool { return h.Unexamined }); len(names) > 0 {
		j.is("", Warning, "not examined", "examine them again, without the bad hosts",
			"nothing is known of %s: other hosts failed, one after the other, while they were examined",
			prose.List(names))
	}
}

// busy judges the load of other programs.
func (j *judge) busy(name string, f *Facts) {
	var what, pids []string
	for _, p := range f.Busy {
		if p.Started > 0 && f.Machine != "" { // hosts of one machine may see the same process
			same := processOf{f.Machine, p.PID, p.Started}
			if j.reported[same] {
				continue
			}
			j.reported[same] = true
		}
		what = append(what, fmt.Sprintf("%s (pid %d, %.0f %%)", p.Name, p.PID, 100*p.CPU))
		pids = append(pids, fmt.Sprint(p.PID))
	}
	if len(what) == 0 {
		return
	}
	j.timed(about(name, Warning, "busy", "look at them, and end what is left over: ps -fp "+strings.Join(pids, ","),
		"other programs keep cores busy, or wait for one: %s", prose.List(what)))
}

func (j *judge) login(name string, l Login) {
	if l.Noise != "" {
		j.is(name, Warning, "start files", "print only where a person reads it: [ -t 1 ] && echo ...",
			"its shell's start files print %q at login", l.Noise)
	}
	if l.OneSession {
		j.is(name, Warning, "ssh sessions", "set MaxSessions 10 in its sshd_config",
			"its sshd allows one session in a connection: each process of an elastic job needs another login")
	}
	if l.Offered > manyKeys {
		j.is(name, Warning, "ssh keys", "name the right key in ~/.ssh/config: IdentityFile ~/.ssh/KEY and "+
			"IdentitiesOnly yes", "it takes the %s of your keys only, and many servers allow 6 tries (MaxAuthTries)",
			ordinal(l.Offered))
	}
}

// nodes judges how memory is spread over NUMA nodes.
func (j *judge) nodes(name string, nodes []NodeMemory) {
	most := int64(0)
	for _, n := range nodes {
		most = max(most, n.Size)
	}
	for i, n := range nodes {
		switch {
		case n.Size > 0 && n.Size*4 < most*3: // a node without memory, as those of GPUs, may be meant so
			j.is(name, Warning, "numa", "look for missing or broken memory modules: dmidecode -t memory",
				"NUMA node %d has %s of memory, and another one %s", i, size(n.Size), size(most))
		case n.Size >= gib && n.Free*50 < n.Size && j.roomy(nodes):
			j.is(name, Warning, "numa", "spread what uses it: numastat -m, numactl --interleave=all",
				"the memory of NUMA node %d is full, and other nodes have room", i)
		}
	}
}

// roomy reports whether a NUMA node has much free memory.
func (j *judge) roomy(nodes []NodeMemory) bool {
	return slices.ContainsFunc(nodes, func(n NodeMemory) bool { return n.Size >= gib && n.Free*4 > n.Size })
}

func ordinal(n int) string {
	switch {
	case n%10 == 1 && n%100 != 11:
		return fmt.Sprint(n, "st")
	case n%10 == 2 && n%100 != 12:
		return fmt.Sprint(n, "nd")
	case n%10 == 3 && n%100 != 13:
		return fmt.Sprint(n, "rd")
	}
	return fmt.Sprint(n, "th")
}

// disk judges the space of a directory.
func (j *judge) disk(host string, d Disk, fix string) {
	kind := "disk"
	small := int64(50 * mib)
	if d.Name == "shm" {
		kind = "shm"
		small = 64 * mib
	}
	switch where := d.Path; {
	case where == "":
	case d.Error != "" && d.Name == "home":
		j.is(host, Warning, kind, fix, "its home %s cannot be written to: %s", where, d.Error)
	case d.Error != "":
		j.is(host, Bad, kind, fix, "%s cannot be written to: %s", where, d.Error)
	case d.Name == "shm" && d.Size < small:
		j.is(host, Bad, kind, fix, "%s holds only %s", where, size(d.Size))
	case d.Free < small:
		j.is(host, Bad, kind, fix, "%s is full: %s of %s are free", where, size(d.Free), size(d.Size))
	case d.Files >= 0 && d.Files < 1000:
		j.is(host, Bad, kind, fix, "%s is full: %d more files fit", where, d.Files)
	case d.Name != "shm" && d.Free < gib && d.Free*20 < d.Size:
		j.is(host, Warning, kind, fix, "%s is nearly full: %s of %s are free", where, size(d.Free), size(d.Size))
	}
}

// differences finds hosts that differ from most others.
func (j *judge) differences() {
	for _, what := range []struct {
		name string
		of   func(f *Facts) string
		bad  bool // whether programs of one job rarely work across the difference
	}{
		{"kernel", func(f *Facts) string { return f.Kernel }, false},
		{"libc", func(f *Facts) string { return f.Libc }, false},
		{"processor", func(f *Facts) string { return f.CPU }, false},
		{"frequency governor", func(f *Facts) string { return f.Governor }, false},
		{"transparent huge pages", func(f *Facts) string { return f.Transparent }, false},
		{"number of huge pages", func(f *Facts) string { return number(f, f.HugePages) }, false},
		{"number of NUMA nodes", func(f *Facts) string { return number(f, int64(f.Nodes)) }, false},
		{"automatic NUMA balancing", func(f *Facts) string { return f.Balancing }, false},
		{"ptrace_scope", func(f *Facts) string { return f.Ptrace }, false},
		{"python", func(f *Facts) string { return f.Versions["python"] }, false},
		{"torch", func(f *Facts) string { return f.Versions["torch"] }, true},
		{"nccl", func(f *Facts) string { return f.Versions["nccl"] }, true},
		{"cuda", func(f *Facts) string { return f.Versions["cuda"] }, false},
		{"NVIDIA driver", func(f *Facts) string { return f.Versions["driver"] }, false},
		{"mpi", func(f *Facts) string { return f.Versions["mpi"] }, true},
		{"limit on open files", func(f *Facts) string { return limit(f, "nofile") }, false},
		{"limit on locked memory", func(f *Facts) string { return limit(f, "memlock") }, false},
	} {
		having := map[string][]string{}
		for _, name := range j.Names {
			if f := j.Hosts[name].Facts; f != nil && (what.of(f) != "" || !f.Unasked) {
				having[what.of(f)] = append(having[what.of(f)], name)
			}
		}
		if len(having) < 2 {
			continue
		}
		most := slices.MaxFunc(slices.Sorted(maps.Keys(having)), func(a, b string) int {
			return len(having[a]) - len(having[b])
		})
		for value, names := range having {
			for _, name := range names {
				if value == most {
					break
				}
				severity := Warning
				if what.bad && value != "" && most != "" {
					severity = Bad
				}
				j.is(name, severity, "version of "+what.name, "make the hosts alike, or leave it out",
					"%s is %s, and %s %s", what.name, orNone(value), others(having[most]), orNone(most))
			}
		}
	}
	var cores []float64
	for _, name := range j.Names {
		if f := j.Hosts[name].Facts; f != nil {
			cores = append(cores, usable(f))
		}
	}
	for _, name := range j.Names {
		if f := j.Hosts[name].Facts; f != nil && f.Quota > 0 && usable(f) < 0.75*middle(cores, true) {
			j.add(about(name, Bad, "quota", "raise the CPU limit of its cgroup or container: cpu.max",
				"a CPU quota lets it use %.4g cores, and the others %.4g", usable(f),
				middle(cores, true)).than(usable(f)/middle(cores, true), 0))
		}
	}
}

// number is a number of a host that knows itself.
func number(f *Facts, n int64) string {
	if f.Kernel == "" {
		return ""
	}
	return fmt.Sprint(n)
}

// limit is a limit of a host, or "".
func limit(f *Facts, name string) string {
	n, known := f.Limits[name]
	if !known {
		return ""
	}
	return fmt.Sprint(n)
}

// usable returns the number of cores that a host may keep busy.
func usable(f *Facts) float64 {
	if f.Quota > 0 {
		return min(f.Quota, float64(f.Cores))
	}
	return float64(f.Cores)
}

func orNone(value string) string {
	if value == "" {
		return "not there"
	}
	return value
}

// others names the hosts that agree.
func others(names []string) string {
	switch len(names) {
	case 1:
		return "on " + names[0] + " it is"
	}
	return fmt.Sprintf("on %d other hosts it is", len(names))
}

// measure is a value that should be alike on all hosts.
type measure struct {
	kind, what, fix string
	of              func(h Host) (float64, bool)
	less            bool    // whether lower values are worse
	warn, bad       float64 // ratios to the others from which on a value is a warning or bad
	least           float64 // smallest difference that matters
	show            func(float64) string
}

func (j *judge) measures() []measure {
	speed := func(of func(*Speed) float64) func(Host) (float64, bool) {
		return func(h Host) (float64, bool) {
			if h.Speed == nil || h.Speed.Share > 0 && h.Speed.Share < undisturbed {
				return 0, false // other programs slowed the probe down
			}
			return of(h.Speed), true
		}
	}
	return []measure{
		{"memory speed", "copies memory at",
			"look for other programs, missing memory modules and power limits: dmidecode -t memory",
			speed(func(s *Speed) float64 { return s.Copy }), true, 0.6, 0.4, 0, rate},
		{"cpu speed", "computes at", "look for other programs, the frequency governor, throttling and power limits: " +
			"cpupower frequency-info", speed(func(s *Speed) float64 { return s.Flops }), true, 0.75, 0.5, 0, flops},
		{"contention", "lets a probe have its cores in this part of the time:",
			"look for other programs, also outside of its container: top, systemd-cgtop", func(h Host) (float64, bool) {
				if h.Speed == nil || h.Speed.Share <= 0 || h.Facts != nil && h.Facts.Quota > 0 {
					return 0, false
				}
				return h.Speed.Share, true
			}, true, 0.6, 0, 0.25, func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }},
		{"login", "takes a login", "look at its load, its DNS and its shell's start files: time ssh HOST true",
			func(h Host) (float64, bool) {
				if h.Login == nil {
					return 0, false
				}
				return h.Login.Seconds, true
			}, false, 4, math.Inf(1), 2, Seconds},
		{"fsync", "needs for a write to disk", "look at its disk: smartctl -a, iostat -x 1",
			func(h Host) (float64, bool) {
				if h.Facts == nil {
					return 0, false
				}
				worst := 0.0
				for _, d := range h.Facts.Disks {
					worst = max(worst, d.Fsync)
				}
				return worst, true
			}, false, 10, math.Inf(1), 0.5, Seconds},
	}
}

// compareHosts finds hosts whose numbers stand out among the others'.
func (j *judge) compareHosts() {
	for _, m := range j.measures() {
		values := map[string]float64{}
		for name, h := range j.Hosts {
			if v, ok := m.of(h); ok {
				values[name] = v
			}
		}
		for _, name := range j.Names {
			value, ok := values[name]
			if !ok {
				continue
			}
			c, ok := compare(value, without(values, name))
			if !ok || math.Abs(value-c.usual) < m.least {
				continue
			}
			if s := m.severity(c, len(values)); s != "" {
				j.timed(about(name, s, m.kind, strings.ReplaceAll(m.fix, "HOST", name), "%s %s, and the others %s",
					m.what, m.show(value), m.show(c.usual)).than(c.times, c.sigma))
			}
		}
	}
	j.steal()
}

// severity derives the severity from factor and deviations. Among few hosts only what would be bad
// counts.
func (m measure) severity(c compared, hosts int) Severity {
	warn := m.warn
	bad := m.bad
	if hosts < 5 && m.less && bad > 0 { // few hosts may agree by chance
		warn = bad
	}
	off := func(limit float64) bool { return m.less && c.times < limit || !m.less && c.times > limit }
	switch {
	case c.sigma < 5 || !off(warn):
		return ""
	case off(bad) && hosts > 2:
		return Bad
	}
	return Warning
}

// steal finds hosts whose hypervisor takes more of their time than that of the others.
func (j *judge) steal() {
	values := map[string]float64{}
	for name, h := range j.Hosts {
		if h.Facts != nil {
			values[name] = h.Facts.Steal
		}
	}
	for _, name := range j.Names {
		if v, ok := values[name]; ok && len(values) > 1 && v > 0.1+median(without(values, name)) {
			j.timed(about(name, Warning, "steal",
				"other virtual machines share its processor: move it, or ask for dedicated cores",
				"its hypervisor takes %.0f %% of its CPU time", 100*v))
		}
	}
}

// without returns all values except one, in no order.
func without(values map[string]float64, name string) (rest []float64) {
	for n, v := range values {
		if n != name {
			rest = append(rest, v)
		}
	}
	return rest
}
