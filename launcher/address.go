package launcher

import (
	"net/netip"
	"slices"
)

const loopback = "127.0.0.1"

// addresses picks for every host the address at which the others should reach
// it: the one at which SSH did. A host without SSH, this machine, is reached
// where the SSH hosts were called from. With this machine alone it is loopback.
func addresses(sessions []*session) []string {
	addrs := make([]string, len(sessions))
	var caller string
	for i, s := range sessions {
		if _, local := s.conn.(Local); local {
			continue // its SSH_CONNECTION is the user's own login
		}
		addrs[i] = s.hello.Reached
		if caller == "" {
			caller = s.hello.Caller
		}
	}
	for i, s := range sessions {
		if addrs[i] != "" {
			continue
		}
		switch own := s.hello.Addrs; {
		case len(sessions) == 1:
			addrs[i] = loopback
		case caller != "" && (slices.Contains(own, caller) || isLoopback(caller)):
			addrs[i] = caller
		case len(own) > 0:
			addrs[i] = own[0]
		default:
			addrs[i] = loopback
		}
	}
	return addrs
}

func isLoopback(addr string) bool {
	ip, err := netip.ParseAddr(addr)
	return err == nil && ip.IsLoopback()
}
