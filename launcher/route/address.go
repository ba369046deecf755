package route

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/launcher/plan"
)

// Contact is the launcher's knowledge of a host's network.
type Contact struct {
	Local    bool   // this machine, without SSH: its SSH_CONNECTION is the user's own login
	Boot     string // identifies the running kernel: hosts with one Boot are one machine; "": unknown
	Hostname string // the host's own name
	// Reached is the address at which SSH reached the host, Caller the address it was reached from;
	// empty without SSH.
	Reached, Caller string
	Addresses       []wire.Address
}

// ContactOf returns the network facts of a host's hello. local: the host is this machine, without
// SSH.
func ContactOf(h wire.Hello, local bool) Contact {
	return Contact{
		Local:     local,
		Boot:      h.Boot,
		Hostname:  h.Hostname,
		Reached:   h.Reached,
		Caller:    h.Caller,
		Addresses: h.Addresses,
	}
}

// machine identifies the machine; names of one machine have equal values.
func (c Contact) machine() string { return c.Boot + " " + c.Hostname }

// reached returns the address at which SSH reached the host; invalid without SSH.
func (c Contact) reached() netip.Addr {
	if c.Local {
		return netip.Addr{}
	}
	return parseAddr(c.Reached)
}

// parseAddr returns the zero Addr if text is not an address.
func parseAddr(text string) netip.Addr {
	ip, _ := netip.ParseAddr(text)
	return ip.Unmap().WithZone("")
}

func loopback() netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, 1}) }

// Addresses returns, for every host, the addresses at which the others should try
// to reach it, best first. A host with an empty list has an error, a *NetworkError.
// It is pure.
//
// The first address is the one at which SSH reached the host; for this machine, the
// one from which SSH connections were made. Addresses in subnets shared by most hosts
// follow, faster interfaces first, and then bridges for containers. If all hosts are
// this machine, loopback is the only address unless asked names another.
func Addresses(hosts []Contact, asked Network) ([][]wire.Address, []error) {
	return NewSurvey(hosts).Addresses(hosts, asked)
}

func (s survey) Addresses(hosts []Contact, asked Network) ([][]wire.Address, []error) {
	chosen := make([][]wire.Address, len(hosts))
	errs := make([]error, len(hosts))
	for i, h := range hosts {
		list := unique(slices.DeleteFunc(s.candidates(h), func(a wire.Address) bool { return !asked.takes(a) }))
		switch {
		case len(list) == 0 && asked.all():
			list = []wire.Address{lastResort(h)}
		case len(list) == 0:
			errs[i] = &NetworkError{Asked: asked, Has: h.Addresses}
		case s.Here && !asked.Names() && list[0].Loopback:
			list = list[:1]
		}
		chosen[i] = list[:min(len(list), rankenv.MaxAddrs)]
	}
	return chosen, errs
}

// lastResort returns the address of a host that reported no usable one.
func lastResort(h Contact) wire.Address {
	if ip := h.reached(); ip.IsValid() {
		return h.locate(ip)
	}
	return h.locate(loopback())
}

// survey holds the facts about all hosts together.
type survey struct {
	Here    bool                    // all hosts are this machine
	caller  []netip.Addr            // addresses from which the SSH hosts were called
	subnets map[netip.Prefix]int    // how many hosts have an address there
	holders map[netip.Addr][]string // the machines that have an address, up to two
}

func NewSurvey(hosts []Contact) survey {
	s := survey{Here: true, subnets: map[netip.Prefix]int{}, holders: map[netip.Addr][]string{}}
	for _, h := range hosts {
		s.Here = s.Here && (h.Local || h.reached().IsLoopback()) && h.Boot == hosts[0].Boot
		if caller := parseAddr(h.Caller); !h.Local && caller.IsValid() && !slices.Contains(s.caller, caller) {
			s.caller = append(s.caller, caller)
		}
		seen := map[netip.Prefix]bool{}
		for _, a := range h.Addresses {
			if !usable(a) {
				continue
			}
			if subnet := a.Prefix.Masked(); !seen[subnet] {
				seen[subnet] = true
				s.subnets[subnet]++
			}
			ip := a.Prefix.Addr()
			machine := h.machine()
			if held := s.holders[ip]; len(held) < 2 && !slices.Contains(held, machine) {
				s.holders[ip] = append(held, machine)
			}
		}
	}
	return s
}

// usable reports addresses that other hosts may reach.
func usable(a wire.Address) bool { return a.Up && routed(a.Prefix.Addr()) }

// routed reports addresses that mean the same to every host: those of loopback
// and of one link do not.
func routed(ip netip.Addr) bool { return ip.IsGlobalUnicast() }

// candidates are a host's addresses that others may try, best first. One may be
// there twice.
func (s survey) candidates(h Contact) []wire.Address {
	var list []wire.Address
	if ip := s.first(h); ip.IsValid() {
		list = append(list, h.locate(ip))
	}
	own := slices.Clone(h.Addresses)
	slices.SortStableFunc(own, s.compare)
	for _, a := range own {
		if usable(a) || s.Here && a.Up && a.Prefix.Addr().IsLoopback() {
			list = append(list, a)
		}
	}
	return list
}

// unique keeps the first of equal addresses: two interfaces may share one.
func unique(list []wire.Address) []wire.Address {
	seen := map[netip.Addr]bool{}
	return slices.DeleteFunc(list, func(a wire.Address) bool {
		ip := a.Prefix.Addr()
		again := seen[ip]
		seen[ip] = true
		return again
	})
}

// first returns the address at which the host is known to be reached, or an invalid one.
func (s survey) first(h Contact) netip.Addr {
	reached := h.reached()
	switch {
	case s.Here && h.Local:
		return loopback()
	case s.Here || routed(reached):
		return reached
	case h.Local:
		for _, ip := range s.caller {
			own := func(a wire.Address) bool { return a.Prefix.Addr() == ip }
			if routed(ip) && slices.ContainsFunc(h.Addresses, own) {
				return ip
			}
		}
	}
	return netip.Addr{}
}

// compare compares two addresses of one host. Equal ones keep the host's order.
func (s survey) compare(a, b wire.Address) int {
	return cmp.Or(
		// Loopback addresses are left only if all hosts are this machine.
		-compareBool(a.Prefix.Addr().IsLoopback(), b.Prefix.Addr().IsLoopback()),
		compareBool(s.inside(a), s.inside(b)),
		-cmp.Compare(s.subnets[a.Prefix.Masked()], s.subnets[b.Prefix.Masked()]),
		-cmp.Compare(a.Speed, b.Speed),
	)
}

// compareBool puts false first.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// inside reports whether an address is probably unreachable from other hosts: one of a bridge for
// containers or virtual machines, an extra one of the loopback interface, or one that another
// machine has too.
func (s survey) inside(a wire.Address) bool {
	if a.Loopback {
		return true
	}
	for _, name := range []string{"docker", "virbr", "lxcbr", "lxdbr", "podman", "cni"} {
		if strings.HasPrefix(a.Interface, name) {
			return true
		}
	}
	return len(s.holders[a.Prefix.Addr()]) > 1
}

// AddrTexts returns the addresses in the form of AddrText.
func AddrTexts(list []wire.Address) (texts []string) {
	for _, a := range list {
		texts = append(texts, AddrText(a))
	}
	return texts
}

// AddrText is the address as other hosts of like interfaces can use it.
func AddrText(a wire.Address) string {
	ip := a.Prefix.Addr()
	if ip.Is6() && ip.IsLinkLocalUnicast() {
		ip = ip.WithZone(a.Interface)
	}
	return ip.String()
}

// locate returns the description of a host's address. One that the host did not
// report may belong to its loopback, or be translated outside.
func (c Contact) locate(ip netip.Addr) wire.Address {
	found := wire.Address{Prefix: netip.PrefixFrom(ip, ip.BitLen()), Up: true, Loopback: ip.IsLoopback()}
	for _, a := range c.Addresses {
		switch {
		case a.Prefix.Addr() == ip:
			return a
		case a.Loopback && a.Prefix.Contains(ip):
			found.Interface = a.Interface
		}
	}
	return found
}

// SameMachine returns a line for every machine with several of the hosts' names.
// Boot id and hostname identify a machine. It is pure.
func SameMachine(hosts []plan.Host, contacts []Contact) (notes []string) {
	byMachine := map[string][]string{}
	var machines []Contact // machines of several hosts, in order of appearance
	for i, c := range contacts {
		if c.Boot == "" {
			continue
		}
		names := append(byMachine[c.machine()], loginName(hosts[i].Host))
		byMachine[c.machine()] = names
		if len(names) == 2 {
			machines = append(machines, c)
		}
	}
	for _, c := range machines {
		notes = append(notes, fmt.Sprintf("%s are one machine (%s): their ranks share its cores and GPUs",
			prose.And(byMachine[c.machine()]), prose.Printable(c.Hostname)))
	}
	return notes
}

// loginName returns the host with user and port, which distinguish it from others of its name.
func loginName(h hostfile.Host) string {
	name := h.Name
	if h.User != "" {
		name = h.User + "@" + name
	}
	if h.Port != 0 {
		name += fmt.Sprintf(" port %d", h.Port)
	}
	return name
}
