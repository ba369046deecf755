package route

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestNetworkTakes(t *testing.T) {
	for _, tc := range []struct {
		asked, name, ip string
		want            bool
	}{
		{"", "eth0", "10.0.0.1", true},
		{"eth0", "eth0", "10.0.0.1", true},
		{"eth0", "eth01", "10.0.0.1", false}, // names are exact
		{"eth0", "eth", "10.0.0.1", false},
		{"=eth0", "eth0", "10.0.0.1", true},
		{"eth*", "eth01", "10.0.0.1", true},
		{"eth*", "eth", "10.0.0.1", true},
		{"eth*", "veth0", "10.0.0.1", false},
		{"*", "anything", "10.0.0.1", true},
		{"eth0,ib0", "ib0", "10.0.0.1", true},
		{" eth0 , ib0 ", "ib0", "10.0.0.1", true},
		{"10.0.0.0/8", "x", "10.200.0.1", true},
		{"10.0.0.0/8", "x", "11.0.0.1", false},
		{"10.1.2.3/8", "x", "10.200.0.1", true}, // a host's address with its subnet
		{"fd00::/64", "x", "fd00::1", true},
		{"fd00::/64", "x", "fd00:0:0:1::1", false},
		{"0.0.0.0/0", "x", "fd00::1", false},
		{"^eth0", "eth0", "10.0.0.1", false},
		{"^eth0", "eth1", "10.0.0.1", true},
		{"^=eth0", "eth0", "10.0.0.1", false},
		{"^eth0,eth1", "eth1", "10.0.0.1", false}, // a list that begins with ^ excludes
		{"^eth0,^eth1", "eth1", "10.0.0.1", false},
		{"^eth0,eth1", "eth2", "10.0.0.1", true},
		{"eth*,^eth1", "eth1", "10.0.0.1", false},
		{"eth*,^eth1", "eth2", "10.0.0.1", true},
		{"eth*,^eth1", "ib0", "10.0.0.1", false},
		{"10.0.0.0/8,^docker*", "docker0", "10.1.0.1", false},
		{"^10.0.0.0/8", "eth0", "10.1.0.1", false},
		{"^docker*,virbr*,172.16.0.0/12", "br-1", "172.18.0.1", false},
	} {
		n, err := ParseNetwork(tc.asked)
		if err != nil {
			t.Errorf("%q: %v", tc.asked, err)
			continue
		}
		ip := netip.MustParseAddr(tc.ip)
		a := wire.Address{Interface: tc.name, Prefix: netip.PrefixFrom(ip, ip.BitLen())}
		got := n.takes(a)
		check.That(t, got == tc.want && n.String() == tc.asked,
			"%q takes %s %s: %v, want %v", n, tc.name, tc.ip, got, tc.want)
	}
}

func TestSeveralNetworks(t *testing.T) {
	for asked, want := range map[string]bool{"": false, "^docker0": false, "^a,b": false, "eth0": false,
		"eth0,^eth1": false, "eth0,eth1": true, "eth1,10.0.0.0/8": true, "ib*": true, "^ib*": false} {
		n, err := ParseNetwork(asked)
		check.That(t, err == nil && n.Several() == want, "%q: %v, %v, want %v", asked, n.Several(), err, want)
	}
}

func TestNetworkThatMakesNoSense(t *testing.T) {
	for text, want := range map[string]string{
		",":                      "an item is empty",
		"eth0,":                  "an item is empty",
		"eth0,,eth1":             "an item is empty",
		" ":                      "an item is empty",
		"^":                      "an item is empty",
		"=":                      `"=" is not the name of an interface`,
		"eth0,^^eth1":            `"^eth1" is not the name`,
		"*eth":                   `"*eth" is not the name of an interface; * may only stand at its end`,
		"e*h0":                   `"e*h0" is not the name`,
		"eth**":                  `"eth**" is not the name`,
		"=eth*":                  `"=eth*": = asks for the exact name`,
		"eth[01]":                `"eth[01]" is not the name`,
		"eth0:1":                 `"eth0:1" is not the name`,
		"eth0 eth1":              `"eth0 eth1" is not the name`,
		"abcdefghijklmnop":       "at most 15 characters",
		"10.0.0.0/33":            `"10.0.0.0/33" is not a subnet`,
		"10.0.0/8":               `"10.0.0/8" is not a subnet`,
		"eth0/8":                 `"eth0/8" is not a subnet`,
		"/8":                     `"/8" is not a subnet`,
		"fe80::%eth0/64":         "is not a subnet",
		"::ffff:10.0.0.0/104":    "write IPv4 subnets as 10.0.0.0/8",
		"10.1.2.3":               `"10.1.2.3" is one host's address: name the subnet, such as 10.1.2.0/24`,
		"^fd00::7":               `"fd00::7" is one host's address: name the subnet, such as fd00::/64`,
		"fe80::1%eth0":           "such as fe80::/64",
		"eth0,::ffff:10.1.2.3":   "such as 10.1.2.0/24",
		"eth0\x00":               "is not the name",
		strings.Repeat("e,", 99): "an item is empty",
	} {
		if n, err := ParseNetwork(text); err == nil || !strings.Contains(err.Error(), want) || !n.all() {
			t.Errorf("%q: %+v, %v; want %q", text, n, err, want)
		}
	}
}

// While hosts come one by one, each says where others may reach it: by the networks that the job
// may use.
func TestAddressesOfOneHost(t *testing.T) {
	address := func(name, prefix string, up bool) wire.Address {
		return wire.Address{Interface: name, Prefix: netip.MustParsePrefix(prefix), Up: up}
	}
	host := wire.Hello{Reached: "10.0.0.1", Addresses: []wire.Address{address("lo", "127.0.0.1/8", true),
		address("eth0", "10.0.0.1/24", true),
		address("ib0", "10.9.0.1/16", true), address("eth1", "10.8.0.1/16", false),
		address("eth0", "fe80::1/64", true)}}
	for _, tc := range []struct{ asked, reached, want string }{
		{"", "10.0.0.1", "[10.0.0.1 10.9.0.1]"},
		{"", "192.0.2.1", "[192.0.2.1 10.0.0.1 10.9.0.1]"}, // translated outside
		{"", "", "[10.0.0.1 10.9.0.1]"},
		{"ib0", "10.0.0.1", "[10.9.0.1]"},
		{"^eth*", "192.0.2.1", "[192.0.2.1 10.9.0.1]"},
		{"10.9.0.0/16", "192.0.2.1", "[10.9.0.1]"},
		{"eth1", "10.0.0.1", "[]"},
	} {
		n := must.Get(ParseNetwork(tc.asked))(t)
		host.Reached = tc.reached
		check.Equal(t, fmt.Sprint(n.Of(host)), tc.want, tc.asked, "of a host reached at", tc.reached)
	}
}
