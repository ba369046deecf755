package route

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
)

// Network selects the addresses that ranks may use: those of named interfaces,
// those in named subnets, or all but some. The zero value selects all.
type Network struct {
	text             string
	include, exclude []networkItem
}

// networkItem is an interface or a subnet.
type networkItem struct {
	name   string // name of an interface; with glob its beginning
	glob   bool
	subnet netip.Prefix // valid: the item is a subnet
}

// maxInterface is the length of the longest interface name that Linux allows.
const maxInterface = 15

// ParseNetwork parses a comma-separated list of interface names (eth0, or eth* for
// a prefix) and subnets (10.0.0.0/8). A ^ before an item excludes it; before the
// first item it excludes the whole list, as in NCCL_SOCKET_IFNAME. A = before a name
// has no effect, since names are exact. An empty text is the zero Network. It is
// pure.
func ParseNetwork(text string) (Network, error) {
	n := Network{text: text}
	if text == "" {
		return n, nil
	}
	words := strings.Split(text, ",")
	allExcluded := strings.HasPrefix(strings.TrimSpace(words[0]), "^")
	for _, word := range words {
		word, excluded := strings.CutPrefix(strings.TrimSpace(word), "^")
		item, err := parseNetworkItem(word)
		switch {
		case err != nil:
			return Network{}, err
		case excluded || allExcluded:
			n.exclude = append(n.exclude, item)
		default:
			n.include = append(n.include, item)
		}
	}
	return n, nil
}

func parseNetworkItem(word string) (networkItem, error) {
	if word == "" {
		return networkItem{}, fmt.Errorf("an item is empty: want interface names and subnets, such as eth0,10.0.0.0/8")
	}
	if strings.Contains(word, "/") {
		subnet, err := netip.ParsePrefix(word)
		switch {
		case err != nil:
			return networkItem{}, fmt.Errorf("%q is not a subnet such as 10.0.0.0/8 or fd00::/64", word)
		case subnet.Addr().Is4In6():
			return networkItem{}, fmt.Errorf("%q: write IPv4 subnets as 10.0.0.0/8", word)
		}
		return networkItem{subnet: subnet.Masked()}, nil
	}
	if ip, err := netip.ParseAddr(word); err == nil {
		return networkItem{}, fmt.Errorf("%q is one host's address: name the subnet, such as %v", word, nearby(ip))
	}
	name := strings.TrimPrefix(word, "=")
	name, glob := strings.CutSuffix(name, "*")
	switch {
	case glob && strings.HasPrefix(word, "="):
		return networkItem{}, fmt.Errorf("%q: = asks for the exact name, * for any end", word)
	case name == "" && !glob, strings.ContainsAny(name, "^=*:%?[] \t\n\x00"):
		return networkItem{}, fmt.Errorf("%q is not the name of an interface; * may only stand at its end", word)
	case len(name) > maxInterface:
		return networkItem{}, fmt.Errorf("%q is not the name of an interface: these have at most %d characters", word,
			maxInterface)
	}
	return networkItem{name: name, glob: glob}, nil
}

// nearby is a subnet around an address, of a common size.
func nearby(ip netip.Addr) netip.Prefix {
	bits := 24
	if ip = ip.Unmap(); ip.Is6() {
		bits = 64
	}
	subnet, _ := ip.WithZone("").Prefix(bits)
	return subnet
}

// String returns the text that was parsed.
func (n Network) String() string { return n.text }

// Names reports whether n includes something, instead of only excluding.
func (n Network) Names() bool { return len(n.include) > 0 }

// Several reports whether n may ask for more than one network: by a list, or by a pattern such as
// ib*.
func (n Network) Several() bool {
	return len(n.include) > 1 || slices.ContainsFunc(n.include, func(item networkItem) bool { return item.glob })
}

// all reports whether n takes every address.
func (n Network) all() bool { return len(n.include) == 0 && len(n.exclude) == 0 }

// takes reports whether ranks may use an address.
func (n Network) takes(a wire.Address) bool {
	taken := len(n.include) == 0
	for _, item := range n.include {
		taken = taken || item.matches(a)
	}
	for _, item := range n.exclude {
		taken = taken && !item.matches(a)
	}
	return taken
}

// Of returns the addresses of a host that n selects and other hosts may reach, while nothing is
// known of these: the one of SSH first.
func (n Network) Of(h wire.Hello) (all []netip.Addr) {
	c := ContactOf(h, false)
	candidates := c.Addresses
	if reached := c.reached(); reached.IsValid() {
		candidates = append([]wire.Address{c.locate(reached)}, candidates...)
	}
	for i, a := range candidates {
		ip := a.Prefix.Addr()
		if !a.Prefix.IsValid() || !n.takes(a) || slices.Contains(all, ip) {
			continue
		}
		if first := i == 0 && c.reached().IsValid(); first || usable(a) {
			all = append(all, ip)
		}
	}
	return all
}

func (i networkItem) matches(a wire.Address) bool {
	switch {
	case i.subnet.IsValid():
		return i.subnet.Contains(a.Prefix.Addr())
	case i.glob:
		return strings.HasPrefix(a.Interface, i.name)
	}
	return a.Interface == i.name
}

// NetworkError reports that a host has no address that ranks may use.
type NetworkError struct {
	Asked Network
	Has   []wire.Address
}

func (e *NetworkError) Error() string {
	return fmt.Sprintf("no address for ranks to use: --network-interface asks for %s, and the host has %s", e.Asked,
		listInterfaces(e.Has))
}

// Hint returns what to change.
func (e *NetworkError) Hint() string {
	return "name interfaces that are up on every host, or their subnet: --network-interface 10.0.0.0/8"
}

// listInterfaces returns a text such as "eth0 10.0.0.1/8 fd00::1/64, lo 127.0.0.1/8", cut after a
// few.
func listInterfaces(all []wire.Address) string {
	const most = 8
	var names []string
	texts := map[string]string{}
	for _, a := range all {
		text, known := texts[a.Interface]
		if !known {
			names = append(names, a.Interface)
			text = prose.Printable(a.Interface)
		}
		if a.Prefix.IsValid() {
			text += " " + a.Prefix.String()
		} else {
			text += " without an address"
		}
		if !a.Up && !known {
			text += " (down)"
		}
		texts[a.Interface] = text
	}
	if len(names) == 0 {
		return "no interface"
	}
	var parts []string
	for i, name := range names {
		if i == most && len(names) > most+1 {
			parts = append(parts, fmt.Sprintf("%d more", len(names)-most))
			break
		}
		parts = append(parts, texts[name])
	}
	return strings.Join(parts, ", ")
}
