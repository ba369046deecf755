package probe

import (
	"net"
	"net/netip"
)

// maxName bounds the name of an interface.
const maxName = 32

// interfaces are the names of this host's interfaces by their addresses.
type interfaces map[netip.Addr]string

func localInterfaces() interfaces {
	names := interfaces{}
	all, _ := net.Interfaces()
	for _, i := range all {
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok {
				if ip, ok := netip.AddrFromSlice(n.IP); ok {
					names[ip.Unmap()] = i.Name
				}
			}
		}
	}
	return names
}

// of returns the name of the interface that has an address, or "".
func (names interfaces) of(addr net.Addr) string {
	at, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return ""
	}
	return names[at.Addr().Unmap().WithZone("")]
}

// toward returns the name of the interface whose address the kernel would choose to send to another
// host, or "". Nothing is sent.
func (names interfaces) toward(addr net.Addr) string {
	conn, err := net.Dial("udp", addr.String())
	if err != nil {
		return ""
	}
	defer conn.Close()
	return names.of(conn.LocalAddr())
}
