// Package hosts finds the hosts of a run: from flags, hostfiles, schedulers, a discovery script or
// the pods of a Kubernetes cluster.
package hosts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/host/topology"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher/transport"
	"github.com/gorun/gorun/launcher/transport/srun"
)

// Selection is the hosts to run on and their source.
type Selection struct {
	Hosts    []hostfile.Host
	NP       int    // ranks to start without -np; 0: one per slot
	Seats    []Seat // places of ranks by a rankfile or --map-by seq; nil: there is neither
	Source   string
	Pods     *Pods // where the hosts come from; nil: no pods
	Warnings []string
	// Unasked lists the steps to find hosts and slots that a Finder without a count has skipped.
	// Hosts marked Auto then have an unknown number of slots, shown as 0; without Hosts, all hosts
	// are unknown.
	Unasked []string
}

// Seat is the place of a rank in a rankfile: the index of its host, and its cores there.
type Seat struct {
	Host  int
	Cores string
}

// Finder finds hosts in the environment of a process.
type Finder struct {
	Lookup   func(string) (string, bool) // environment variables
	Open     func(string) (io.ReadCloser, error)
	Hostname string
	// Addresses returns the addresses of this machine, by which a pod knows itself.
	Addresses func() []netip.Addr
	// Here counts units of this machine; 0: they are counted as those of other hosts are.
	Here func(unit string) int
	// count asks hosts for their number of a unit; nil: neither a host nor a discovery script may
	// be asked.
	count Counter
}

// Counter asks hosts how many of a unit each has: settings.UnitAuto, or another unit of --ppn.
type Counter func(ctx context.Context, hosts []hostfile.Host, unit string) ([]int, error)

// NewFinder returns a Finder for this process. If count is nil, the Finder starts nothing: it
// reports in Selection.Unasked what it would have to ask.
func NewFinder(count Counter) Finder {
	hostname, _ := os.Hostname()
	open := func(name string) (io.ReadCloser, error) { return trust.Open(name) }
	return Finder{
		Lookup:    os.LookupEnv,
		Open:      open,
		Hostname:  hostname,
		Addresses: ownAddresses,
		Here:      unitsHere,
		count:     count,
	}
}

// ownAddresses returns the addresses of this machine's interfaces.
func ownAddresses() (addresses []netip.Addr) {
	all, _ := net.InterfaceAddrs() // without them this pod is reached as the others are
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			addresses = append(addresses, prefix.Addr())
		}
	}
	return addresses
}

// unitsHere counts units of this machine, 0 for GPUs.
func unitsHere(unit string) int {
	if unit == settings.UnitAuto {
		return topology.Cores()
	}
	m, err := topology.Here()
	if kind := topology.Units()[unit]; err == nil && kind != 0 {
		return m.Count(kind)
	}
	return 0
}

// findHosts chooses the hosts. With both, -H selects among the hosts of --hostfile; without either,
// the hosts come from [hostfile.Default], else this machine. A list that only selects (^f3, +n0)
// selects among the default hosts, and one that names nodes of the surrounding Slurm job among
// those.
func findHosts(o *settings.Options, s Finder) (p Selection, err error) {
	switch {
	case o.Hostfile != "":
		p, err = s.readHostfile(o.Hostfile, o.SlotsByCores)
		if err == nil && o.Hosts != "" {
			p, err = s.narrow(p, o.Hosts)
		}
	case o.Hosts != "":
		if err := s.checkNoFile(o.Hosts); err != nil {
			return Selection{}, err
		}
		list, err := hostfile.ParseList(o.Hosts)
		if err != nil {
			return Selection{}, hostsError(err)
		}
		if p, err = s.ofSlurmJob(list, o.Method()); p.Hosts == nil && err == nil {
			p, err = s.resolve(list, "-H")
		}
		if err != nil {
			return Selection{}, err
		}
	default:
		p, err = s.Defaults()
		if err == nil && p.Hosts == nil {
			p = Selection{Hosts: []hostfile.Host{{Name: "localhost", Slots: max(o.NP, 1), Auto: o.SlotsByCores &&
				o.NP == 0 || o.Request(o.NP).NoOversubscribe}}, Source: "this machine"}
		}
	}
	if err != nil {
		return Selection{}, err
	}
	return s.leaveHere(p, o)
}

// checkNoFile returns an error for -H with the name of a hostfile, if it has a dot or slash: a host
// may have the plain name of a file.
func (s Finder) checkNoFile(name string) error {
	if !strings.ContainsAny(name, "./") {
		return nil
	}
	file, err := s.Open(name)
	if err != nil {
		return nil
	}
	defer file.Close()
	if list, err := hostfile.Parse(name, file); err != nil || len(list.Mentions()) == 0 {
		return nil
	}
	hint := "a file of hosts follows --hostfile: --hostfile " + prose.Quoted(name)
	return usage.Errorf(hint, "-H %s: it is a hostfile", name)
}

// leaveHere leaves this machine out of p if o has --no-local.
func (s Finder) leaveHere(p Selection, o *settings.Options) (Selection, error) {
	if !o.NoLocal {
		return p, nil
	}
	p.Hosts = slices.DeleteFunc(slices.Clone(p.Hosts), func(h hostfile.Host) bool {
		return transport.IsLocal(h, s.Hostname)
	})
	if len(p.Hosts) == 0 {
		return Selection{}, usage.Errorf("name others with -H or --hostfile",
			"--no-local: the only host is this machine, from %s", p.Source)
	}
	return p, nil
}

// Defaults returns the hosts that the environment names; none if it names none.
func (s Finder) Defaults() (Selection, error) {
	found, err := hostfile.Default(s.Lookup, s.Open)
	if err != nil {
		return Selection{}, usage.Errorf("give the hosts with -H or --hostfile, or unset the variable", "%w", err)
	}
	if found == nil {
		return Selection{}, nil
	}
	return Selection{
		Hosts:    found.Hosts,
		NP:       found.NP,
		Source:   found.Source,
		Warnings: found.Warnings,
	}, nil
}

// readHostfile reads a hostfile. Its hosts without a number of slots have one per core if byCores.
func (s Finder) readHostfile(name string, byCores bool) (Selection, error) {
	list, err := s.parseHostfile(name)
	if err != nil {
		return Selection{}, err
	}
	if byCores {
		list.CountCores()
	}
	return s.resolve(list, "hostfile "+name)
}

func (s Finder) parseHostfile(name string) (hostfile.List, error) {
	file, err := s.Open(name)
	if err != nil {
		hint := usage.FileHint(name, "check the name after --hostfile")
		if _, no := hostfile.ParseList(name); no == nil && strings.ContainsAny(name, ",:") {
			hint = "hosts themselves follow -H: -H " + prose.Quoted(name)
		}
		return hostfile.List{}, usage.Errorf(hint, "open the hostfile: %w", err)
	}
	defer file.Close()
	list, err := hostfile.Parse(name, file)
	if read, is := errors.AsType[*fs.PathError](err); is {
		return hostfile.List{}, usage.Errorf("check the name after --hostfile", "read the hostfile: %w", read)
	}
	return list, hostsError(err)
}

// resolve turns a list into hosts. A list that only selects does so among the default hosts.
func (s Finder) resolve(list hostfile.List, source string) (Selection, error) {
	p := Selection{Source: source, Warnings: list.Warnings}
	var err error
	if !list.Relative() {
		p.Hosts, err = list.Hosts()
		return p, hostsError(err)
	}
	others, err := s.Defaults()
	switch {
	case err != nil:
		return Selection{}, err
	case others.Hosts == nil:
		p.Hosts, err = list.Hosts() // fails: nothing to select from
	default:
		p.Hosts, err = list.Select(others.Hosts, others.Source)
		p.Source = source + " among " + others.Source
		p.Warnings = slices.Concat(others.Warnings, p.Warnings)
	}
	return p, hostsError(err)
}

// narrow returns the hosts of p that -H selects.
func (s Finder) narrow(p Selection, hosts string) (Selection, error) {
	list, err := hostfile.ParseList(hosts)
	if err != nil {
		return Selection{}, hostsError(err)
	}
	p.Hosts, err = list.Select(p.Hosts, p.Source)
	p.Source = "-H among " + p.Source
	return p, hostsError(err)
}

// hostsError turns an error in a list of hosts into a usage error with the nearest names as hint.
func hostsError(err error) error {
	var absent *hostfile.AbsentError
	var parse *hostfile.ParseError
	switch {
	case errors.As(err, &absent):
		return usage.Errorf(nearHosts(absent.Host, absent.Have), "%w", err)
	case errors.As(err, &parse):
		return usage.Errorf(hostsHint(parse.File), "%w", err)
	}
	return err
}

// nearHosts returns a hint with the names in have that resemble name.
func nearHosts(name string, have []string) string {
	short := func(s string) string {
		label, _, _ := strings.Cut(s, ".")
		return strings.ToLower(label)
	}
	var near []string
	for _, h := range have {
		if short(h) == short(name) && !slices.Contains(near, h) {
			near = append(near, h)
		}
	}
	if n := usage.Nearest(name, have); n != "" && !slices.Contains(near, n) {
		near = append(near, n)
	}
	if len(near) > 0 {
		return "did you mean " + strings.Join(near[:min(len(near), 3)], " or ") + "?"
	}
	return "it has " + prose.List(slices.Compact(slices.Clone(have)))
}

// Slots returns the slots of all hosts.
func (p Selection) Slots() (sum int) {
	for _, h := range p.Hosts {
		sum += h.Slots
	}
	return sum
}

// Summary describes hosts, slots and source for --dry-run and -v.
func (p Selection) Summary() string {
	if p.Hosts == nil && p.Unasked != nil {
		return "not known: " + p.first()
	}
	text := fmt.Sprintf("%d with %s, from %s", len(p.Hosts), prose.Count(p.Slots(), "slot"), p.Source)
	if p.Unasked != nil {
		text = fmt.Sprintf("%d, from %s; %s", len(p.Hosts), p.Source, p.first())
	}
	if p.NP > 0 {
		text += fmt.Sprintf(", which requests %d ranks", p.NP)
	}
	return text
}

// first describes the steps of a run before it knows its hosts and slots.
func (p Selection) first() string { return "a run first " + strings.Join(p.Unasked, ", and ") }

// hostsHint shows the syntax of hosts in name: -H, a variable or a file.
func hostsHint(name string) string {
	if name == "-H" {
		return "for example -H f1:2,ada@f2:2, without blanks"
	}
	return "a line names one host, for example: f1 slots=2"
}

// ofSlurmJob selects list among the nodes of the surrounding Slurm job, which keep their slots
// unless list gives them. It returns no hosts if list names other hosts or more slots than the job
// has.
func (s Finder) ofSlurmJob(list hostfile.List, method string) (Selection, error) {
	_, inside, _ := srun.FindJob(s.Lookup)
	if !inside || list.Relative() || method != "auto" && method != "srun" {
		return Selection{}, nil
	}
	p, err := s.Defaults()
	if err != nil || p.Hosts == nil {
		return Selection{}, nil // the list stands for itself
	}
	hosts, err := list.Select(p.Hosts, p.Source)
	var absent *hostfile.AbsentError
	switch {
	case errors.As(err, &absent) && method == "srun":
		return Selection{}, hostsError(err)
	case err != nil:
		return Selection{}, nil
	}
	return Selection{Hosts: hosts, Source: "-H among " + p.Source, Warnings: slices.Concat(p.Warnings, list.Warnings)},
		nil
}
