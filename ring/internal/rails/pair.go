package rails

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/net/secure"
)

// Most is the largest number of rails between two ranks.
const Most = 8

// Pairing is one rail between two ranks.
type Pairing struct{ Mine, Theirs secure.Rail }

// Pair returns the rails between two ranks: addresses of both in one subnet. Each subnet and each
// interface of either rank makes one rail at most. A subnet in which both have the same address
// makes none: it is a network inside each host, such as that of a container bridge. Both ranks get
// the same rails in the same order, if the lower rank passes its own addresses as first. There are
// at most limit.
func Pair(first, second []secure.Rail, limit int) []Pairing {
	inside := func(subnet netip.Prefix) bool {
		return slices.ContainsFunc(first, func(a secure.Rail) bool {
			return subnetOf(a) == subnet && slices.ContainsFunc(second, func(b secure.Rail) bool {
				return a.Addr.Addr() == b.Addr.Addr()
			})
		})
	}
	var pairs []Pairing
	for _, a := range first {
		subnet := subnetOf(a)
		if len(pairs) == min(limit, Most) || !subnet.IsValid() || inside(subnet) {
			continue
		}
		for _, b := range second {
			taken := func(p Pairing) bool {
				return subnetOf(p.Mine) == subnet || p.Mine.Interface == a.Interface ||
					p.Theirs.Interface == b.Interface
			}
			if subnetOf(b) == subnet && !slices.ContainsFunc(pairs, taken) {
				pairs = append(pairs, Pairing{a, b})
				break
			}
		}
	}
	return pairs
}

// subnetOf returns the zero Prefix for an address that is alone in its subnet.
func subnetOf(r secure.Rail) netip.Prefix {
	addr := r.Addr.Addr()
	if !addr.IsValid() || r.Bits < 0 || r.Bits >= addr.BitLen() {
		return netip.Prefix{}
	}
	p, err := addr.Prefix(r.Bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// Local returns those of addrs that are on interfaces by which other hosts may be reached.
// Loopback, tunnels, link-local addresses and bridges for containers are left out.
func Local(addrs []netip.AddrPort) ([]secure.Rail, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var own []secure.Rail
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 || i.Flags&(net.FlagLoopback|net.FlagPointToPoint) != 0 || forContainers(i.Name) {
			continue
		}
		list, err := i.Addrs()
		if err != nil {
			continue // it has gone
		}
		for _, a := range list {
			if n, ok := a.(*net.IPNet); ok {
				addr, _ := netip.AddrFromSlice(n.IP)
				bits, _ := n.Mask.Size()
				own = append(own, secure.Rail{Addr: netip.AddrPortFrom(addr.Unmap(), 0), Bits: bits, Interface: i.Name})
			}
		}
	}
	return choose(addrs, own), nil
}

// choose returns own in the order of addrs, with their ports.
func choose(addrs []netip.AddrPort, own []secure.Rail) []secure.Rail {
	var chosen []secure.Rail
	for _, addr := range addrs {
		i := slices.IndexFunc(own, func(r secure.Rail) bool { return r.Addr.Addr() == addr.Addr() })
		if i >= 0 && addr.Addr().IsGlobalUnicast() {
			chosen = append(chosen, secure.Rail{Addr: addr, Bits: own[i].Bits, Interface: own[i].Interface})
		}
	}
	return chosen
}

// forContainers reports whether an interface leads to containers or virtual machines of its host.
func forContainers(name string) bool {
	for _, prefix := range []string{"docker", "br-", "virbr", "lxcbr", "lxdbr", "podman", "cni"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
