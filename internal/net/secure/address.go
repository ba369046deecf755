package secure

import (
	"net/netip"
	"slices"
)

// FirstPort is the first port on which members of a group listen: those below are of the system.
const FirstPort = 1024

// Dialable returns the addresses that a member with its own addresses may connect to, of those at
// which another one says that it listens. A hostile member could name a service of this host, or
// of another machine of a link: addresses of loopback or of one link are only for members that
// have such addresses themselves.
func Dialable(addrs []netip.AddrPort, own []netip.Addr) []netip.AddrPort {
	return slices.DeleteFunc(slices.Clone(addrs), func(at netip.AddrPort) bool {
		ip := at.Addr().Unmap()
		switch {
		case at.Port() < FirstPort:
			return true
		case ip.IsLoopback():
			return !slices.ContainsFunc(own, netip.Addr.IsLoopback)
		case ip.IsLinkLocalUnicast():
			return !slices.ContainsFunc(own, netip.Addr.IsLinkLocalUnicast)
		}
		return !ip.IsGlobalUnicast()
	})
}
