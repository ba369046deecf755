package route

import (
	"net/netip"
	"slices"

	"github.com/gorun/gorun/internal/net/wire"
)

// Interfaces returns, for every host, the interfaces that libraries with their own sockets, such as
// NCCL, should use; chosen are the hosts' addresses, best first. Such a library uses all interfaces
// that it is given, and tries no other address if one does not answer. So the result is the
// interfaces with an address in a network shared by all hosts, without networks slower than half of
// the fastest; without a shared network, the interface of the best address. It is empty if all
// ranks are on one host, where the agent decides. It is pure.
func (s survey) Interfaces(chosen [][]wire.Address) [][]string {
	names := make([][]string, len(chosen))
	if len(chosen) == 1 {
		return names
	}
	shared := s.sharedNetworks(chosen)
	for i, list := range chosen {
		for _, a := range list {
			if a.Interface != "" && slices.Contains(shared, a.Prefix.Masked()) && !s.inside(a) &&
				!slices.Contains(names[i], a.Interface) {
				names[i] = append(names[i], a.Interface)
			}
		}
		if len(shared) == 0 && len(list) > 0 && list[0].Interface != "" {
			names[i] = []string{list[0].Interface}
		}
	}
	return names
}

// sharedNetworks returns the subnets in which all hosts have an address, without slow ones. IPv6
// counts only if no IPv4 subnet is shared: a library that sees both may try to connect one to the
// other.
func (s survey) sharedNetworks(chosen [][]wire.Address) (shared []netip.Prefix) {
	speeds := map[netip.Prefix]int{}
	hosts := map[netip.Prefix]int{}
	for _, list := range chosen {
		own := map[netip.Prefix]int{}
		for _, a := range list {
			if !s.inside(a) && a.Prefix.Bits() < a.Prefix.Addr().BitLen() { // a single address is no network
				own[a.Prefix.Masked()] = max(own[a.Prefix.Masked()], a.Speed)
			}
		}
		for network, speed := range own {
			if hosts[network]++; hosts[network] == 1 || speed < speeds[network] {
				speeds[network] = speed
			}
		}
	}
	fastest := 0
	v4 := false
	for network, n := range hosts {
		if n == len(chosen) {
			shared = append(shared, network)
			fastest = max(fastest, speeds[network])
			v4 = v4 || network.Addr().Is4()
		}
	}
	return slices.DeleteFunc(shared, func(network netip.Prefix) bool {
		return v4 && !network.Addr().Is4() || 2*speeds[network] < fastest
	})
}
