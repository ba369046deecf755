package seat

import (
	"cmp"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/gorun/gorun/internal/net/wire"
)

// Addresses lists this host's addresses: first those that other hosts may reach, last interfaces
// without one, and at most as many as a hello may have.
func Addresses() []wire.Address {
	interfaces, _ := net.Interfaces()
	prefixes := addressTable()
	var own []wire.Address
	for _, nic := range interfaces {
		speed := 0
		if isUp(nic) && len(prefixes[nic.Index]) > 0 {
			speed = readSpeed("/sys/class/net", nic.Name)
		}
		own = append(own, addressesOf(nic, prefixes[nic.Index], speed)...)
	}
	return foremost(own, wire.MaxAddresses)
}

// isUp reports whether an interface is up and has a link.
func isUp(nic net.Interface) bool {
	const ready = net.FlagUp | net.FlagRunning
	return nic.Flags&ready == ready
}

// addressesOf describes one interface for the hello.
func addressesOf(nic net.Interface, prefixes []netip.Prefix, speed int) []wire.Address {
	like := wire.Address{
		Interface: nic.Name,
		Up:        isUp(nic),
		Loopback:  nic.Flags&net.FlagLoopback != 0,
		Speed:     speed,
	}
	if len(prefixes) == 0 {
		return []wire.Address{like}
	}
	all := make([]wire.Address, len(prefixes))
	for i, p := range prefixes {
		all[i] = like
		all[i].Prefix = p
	}
	return all
}

// addressTable reads the addresses of all interfaces, by index, at once:
// net.Interface.Addrs reads them all again for each interface.
func addressTable() map[int][]netip.Prefix {
	dump, err := syscall.NetlinkRIB(syscall.RTM_GETADDR, syscall.AF_UNSPEC)
	if err != nil {
		return nil
	}
	messages, _ := syscall.ParseNetlinkMessage(dump)
	table := map[int][]netip.Prefix{}
	for _, m := range messages {
		if index, prefix := parseAddress(m); prefix.IsValid() {
			table[index] = append(table[index], prefix)
		}
	}
	return table
}

// parseAddress reads an RTM_NEWADDR message: struct ifaddrmsg and attributes, see
// rtnetlink(7). The prefix is invalid for any other.
func parseAddress(m syscall.NetlinkMessage) (index int, prefix netip.Prefix) {
	if m.Header.Type != syscall.RTM_NEWADDR || len(m.Data) < syscall.SizeofIfAddrmsg {
		return 0, prefix
	}
	bits := int(m.Data[1])
	index = int(binary.NativeEndian.Uint32(m.Data[4:]))
	attributes, err := syscall.ParseNetlinkRouteAttr(&m)
	if err != nil {
		return 0, prefix
	}
	var local, address netip.Addr
	for _, a := range attributes {
		switch a.Attr.Type {
		case syscall.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(a.Value)
		case syscall.IFA_ADDRESS: // on a point-to-point link with a local address: the peer's
			address, _ = netip.AddrFromSlice(a.Value)
		}
	}
	if local.IsValid() {
		address = local
	}
	return index, netip.PrefixFrom(address, bits)
}

// foremost returns at most limit addresses, the most useful first: hosts may have a thousand
// virtual links with only a link-local address.
func foremost(all []wire.Address, limit int) []wire.Address {
	use := func(a wire.Address) int {
		switch ip := a.Prefix.Addr(); {
		case !a.Prefix.IsValid():
			return 4
		case ip.IsLinkLocalUnicast():
			return 3
		case a.Loopback:
			return 2
		case !a.Up:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b wire.Address) int { return cmp.Compare(use(a), use(b)) })
	return all[:min(len(all), limit)]
}

// readSpeed is an interface's speed in Mbit/s in the folder class, normally /sys/class/net; 0 if
// the driver does not know it.
func readSpeed(class, nic string) int {
	text, _ := os.ReadFile(filepath.Join(class, nic, "speed"))
	// Unknown is 2^32-1 for some drivers, -1 for others.
	speed, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 32)
	if err != nil || speed < 0 {
		return 0
	}
	return int(speed)
}
