package rails

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/test/check"
)

// railsOf reads "eth0 10.0.0.1/24, …". All have port 1.
func railsOf(t *testing.T, text string) (all []secure.Rail) {
	t.Helper()
	for word := range strings.SplitSeq(text, ", ") {
		name, subnet, found := strings.Cut(word, " ")
		if !found {
			continue
		}
		p := netip.MustParsePrefix(subnet)
		all = append(all, secure.Rail{Addr: netip.AddrPortFrom(p.Addr(), 1), Bits: p.Bits(), Interface: name})
	}
	return all
}

func TestPair(t *testing.T) {
	for name, tc := range map[string]struct {
		first, second string
		limit         int
		want          string
	}{
		"two rails": {"a 10.0.0.1/24, b 10.0.1.1/24", "x 10.0.0.2/24, y 10.0.1.2/24", 8,
			"10.0.0.1-10.0.0.2 10.0.1.1-10.0.1.2"},
		"in the order of the first": {"b 10.0.1.1/24, a 10.0.0.1/24", "x 10.0.0.2/24, y 10.0.1.2/24", 8,
			"10.0.1.1-10.0.1.2 10.0.0.1-10.0.0.2"},
		"no subnet in common": {"a 10.0.0.1/24", "x 10.0.1.2/24", 8, ""},
		"prefixes differ":     {"a 10.0.0.1/24", "x 10.0.0.2/16", 8, ""},
		"one interface of the first": {"a 10.0.0.1/24, a 10.0.1.1/24", "x 10.0.0.2/24, y 10.0.1.2/24", 8,
			"10.0.0.1-10.0.0.2"},
		"one interface of the second": {"a 10.0.0.1/24, b 10.0.1.1/24", "x 10.0.0.2/24, x 10.0.1.2/24", 8,
			"10.0.0.1-10.0.0.2"},
		"two interfaces in one subnet": {"a 10.0.0.1/24, b 10.0.0.2/24", "x 10.0.0.3/24, y 10.0.0.4/24", 8,
			"10.0.0.1-10.0.0.3"},
		"IPv4 and IPv6 of one wire": {"a 10.0.0.1/24, a fd00::1/64", "x fd00::2/64, x 10.0.0.2/24", 8,
			"10.0.0.1-10.0.0.2"},
		"IPv6": {"a 10.0.0.1/24, b fd00::1/64", "x fd00::2/64, y 10.0.0.2/24", 8,
			"10.0.0.1-10.0.0.2 fd00::1-fd00::2"},
		"a network inside each host": {"a 10.0.0.1/24, br 172.18.0.1/16", "x 10.0.0.2/24, br 172.18.0.1/16", 8,
			"10.0.0.1-10.0.0.2"},
		"one that has other addresses too": {"br 172.18.0.1/16, br 172.18.0.9/16", "br 172.18.0.1/16, br 172.18.0.7/16",
			8, ""},
		"addresses without a subnet": {"a 10.0.0.1/32", "x 10.0.0.1/32", 8, ""},
		"a limit": {"a 10.0.0.1/24, b 10.0.1.1/24", "x 10.0.0.2/24, y 10.0.1.2/24", 1,
			"10.0.0.1-10.0.0.2"},
		"none": {"", "x 10.0.0.2/24", 8, ""},
	} {
		var got []string
		for _, p := range Pair(railsOf(t, tc.first), railsOf(t, tc.second), tc.limit) {
			got = append(got, fmt.Sprintf("%s-%s", p.Mine.Addr.Addr(), p.Theirs.Addr.Addr()))
		}
		check.Equal(t, strings.Join(got, " "), tc.want, name)
	}
	var many []secure.Rail
	for i := range 20 {
		many = append(many, railsOf(t, fmt.Sprintf("e%d 10.0.%d.1/24", i, i))...)
	}
	others := slices.Clone(many)
	for i := range others {
		others[i].Addr = netip.AddrPortFrom(others[i].Addr.Addr().Next(), 1)
	}
	got := Pair(many, others, 100)
	check.That(t, len(got) == Most, "%d rails, want %d", len(got), Most)
}

// What another rank publishes may be anything.
func TestPairWithNonsense(t *testing.T) {
	own := railsOf(t, "a 10.0.0.1/24")
	for _, bits := range []int{-1, 0, 33, 1 << 40} {
		Pair(own, []secure.Rail{{Addr: own[0].Addr, Bits: bits}, {Bits: bits}}, Most)
	}
}

func TestChooseKeepsUsableAddresses(t *testing.T) {
	own := railsOf(t, "eth0 10.0.0.1/24, eth1 10.0.1.1/24, eth2 169.254.0.7/16, eth3 10.0.3.1/24")
	var addrs []netip.AddrPort
	for i, text := range []string{"10.0.1.1", "10.0.0.1", "169.254.0.7", "192.0.2.1"} {
		addrs = append(addrs, netip.AddrPortFrom(netip.MustParseAddr(text), uint16(1000+i)))
	}
	want := fmt.Sprint([]secure.Rail{{Addr: addrs[0], Bits: 24, Interface: "eth1"},
		{Addr: addrs[1], Bits: 24, Interface: "eth0"}})
	check.Equal(t, fmt.Sprint(choose(addrs, own)), want)
	for name, want := range map[string]bool{"eth0": false, "brown": false, "docker0": true, "br-1f00": true,
		"virbr0": true, "cni0": true} {
		check.That(t, forContainers(name) == want, "%s: %v", name, !want)
	}
}
