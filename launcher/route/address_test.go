package route

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// nics reads "eth0 10.0.0.1/8, lo! 127.0.0.1/8, eth1- 10.1.0.1/16, ib0@100000 …":
// ! marks a loopback interface, - one that is down, @ its speed.
func nics(t *testing.T, text string) (all []wire.Address) {
	t.Helper()
	for word := range strings.SplitSeq(text, ", ") {
		if word == "" {
			continue
		}
		name, prefix, _ := strings.Cut(word, " ")
		a := wire.Address{Up: true}
		name, a.Loopback = strings.CutSuffix(name, "!")
		name, down := strings.CutSuffix(name, "-")
		a.Up = !down
		if name, speed, found := strings.Cut(name, "@"); found {
			fmt.Sscan(speed, &a.Speed)
			a.Interface = name
		} else {
			a.Interface = name
		}
		if prefix != "" {
			a.Prefix = netip.MustParsePrefix(prefix)
		}
		all = append(all, a)
	}
	return all
}

// remote is a host that SSH reached, on a machine of its own.
func remote(t *testing.T, name, reached, caller, interfaces string) Contact {
	return Contact{
		Hostname:  name,
		Boot:      name,
		Reached:   reached,
		Caller:    caller,
		Addresses: nics(t, interfaces),
	}
}

// here is this machine, without SSH.
func here(t *testing.T, interfaces string) Contact {
	return Contact{
		Local:     true,
		Hostname:  "me",
		Boot:      "me",
		Addresses: nics(t, interfaces),
	}
}

// sshHere is this machine, reached by SSH at one of its own addresses.
func sshHere(t *testing.T, reached, interfaces string) Contact {
	c := here(t, interfaces)
	c.Local = false
	c.Reached = reached
	c.Caller = reached
	return c
}

const lo = "lo! 127.0.0.1/8, lo! ::1/128"

func TestAddressesBestFirst(t *testing.T) {
	const docker = ", docker0 172.17.0.1/16, virbr0 192.168.122.1/24"
	for name, tc := range map[string]struct {
		hosts []Contact
		want  []string // a host's addresses, in words
	}{
		"this machine alone":      {[]Contact{here(t, lo+", eth0 10.0.0.9/8")}, []string{"127.0.0.1"}},
		"this machine, untold of": {[]Contact{here(t, "")}, []string{"127.0.0.1"}},
		"this machine and SSH to it": {
			[]Contact{here(t, lo+", eth0 10.0.0.9/8"), sshHere(t, "127.5.6.1", lo+", eth0 10.0.0.9/8"),
				sshHere(t, "::1", lo)},
			[]string{"127.0.0.1", "127.5.6.1", "::1"}},
		"one host over SSH": {
			[]Contact{remote(t, "a", "10.0.0.1", "10.0.0.9", lo+", eth1 192.168.0.1/24, eth0 10.0.0.1/8")},
			[]string{"10.0.0.1 192.168.0.1"}},
		"where SSH reached them, before faster interfaces": {
			[]Contact{remote(t, "a", "10.0.0.1", "10.0.0.9", "ib0@100000 10.9.0.1/16, eth0@1000 10.0.0.1/16"),
				remote(t, "b", "10.0.0.2", "10.0.0.9", "eth0@1000 10.0.0.2/16, ib0@100000 10.9.0.2/16")},
			[]string{"10.0.0.1 10.9.0.1", "10.0.0.2 10.9.0.2"}},
		"subnets of most hosts first, then speed": {
			[]Contact{
				remote(t, "a", "10.0.0.1", "",
					"own 10.1.0.1/16, two@400000 10.2.0.1/16, slow@1000 10.3.0.1/16, fast@10000 10.4.0.1/16"),
				remote(t, "b", "10.0.0.2", "", "two@400000 10.2.0.2/16, slow@1000 10.3.0.2/16, fast@10000 10.4.0.2/16"),
				remote(t, "c", "10.0.0.3", "", "slow@1000 10.3.0.3/16, fast@10000 10.4.0.3/16"),
			},
			[]string{"10.0.0.1 10.4.0.1 10.3.0.1 10.2.0.1 10.1.0.1", "10.0.0.2 10.4.0.2 10.3.0.2 10.2.0.2",
				"10.0.0.3 10.4.0.3 10.3.0.3"}},
		"two addresses in a subnet count as one host": {
			[]Contact{remote(t, "a", "10.0.0.1", "", "x 10.1.0.1/16, x 10.1.0.2/16, y 10.2.0.1/16"),
				remote(t, "b", "10.0.0.2", "", "y 10.2.0.2/16")},
			[]string{"10.0.0.1 10.2.0.1 10.1.0.1 10.1.0.2", "10.0.0.2 10.2.0.2"}},
		"bridges for containers last": {
			[]Contact{remote(t, "a", "10.0.0.1", "", lo+docker+", eth0 10.0.0.1/8, eth1 192.168.1.1/24"),
				remote(t, "b", "10.0.0.2", "", lo+docker+", eth0 10.0.0.2/8")},
			[]string{"10.0.0.1 192.168.1.1 172.17.0.1 192.168.122.1", "10.0.0.2 172.17.0.1 192.168.122.1"}},
		"one host's bridge last, too": {
			[]Contact{remote(t, "a", "10.0.0.1", "", "docker0@10000 172.17.0.1/16, eth1@1000 192.168.1.1/24, eth0 "+
				"10.0.0.1/8"), remote(t, "b", "10.0.0.2", "", "eth0 10.0.0.2/8")},
			[]string{"10.0.0.1 192.168.1.1 172.17.0.1", "10.0.0.2"}},
		"an address that two machines have last, whatever its interface": {
			[]Contact{remote(t, "a", "10.0.0.1", "", "br-1f00 172.18.0.1/16, eth1 192.168.1.1/24"),
				remote(t, "b", "10.0.0.2", "", "mybridge 172.18.0.1/16, eth1 192.168.2.1/24")},
			[]string{"10.0.0.1 192.168.1.1 172.18.0.1", "10.0.0.2 192.168.2.1 172.18.0.1"}},
		"one machine under two names has its own addresses": {
			[]Contact{sshHere(t, "10.0.0.1", "eth1 192.168.1.1/24, eth2 10.5.0.1/30"),
				sshHere(t, "10.0.0.2", "eth1 192.168.1.1/24"), remote(t, "b", "10.0.0.3", "", "eth1 192.168.1.3/24")},
			[]string{"10.0.0.1 192.168.1.1 10.5.0.1", "10.0.0.2 192.168.1.1", "10.0.0.3 192.168.1.3"}},
		"addresses of the loopback interface that are routed come last": {
			[]Contact{remote(t, "a", "10.255.0.1", "", "lo! 127.0.0.1/8, lo! 10.255.0.1/32, lo! 10.255.9.1/32, eth0 "+
				"10.0.0.1/31"), remote(t, "b", "10.255.0.2", "", "lo! 10.255.0.2/32")},
			[]string{"10.255.0.1 10.0.0.1 10.255.9.1", "10.255.0.2"}},
		"one address on two interfaces": {
			[]Contact{remote(t, "a", "10.0.0.1", "", "eth0 10.0.0.1/8, eth1 10.0.0.1/8, x 10.1.0.1/32, y 10.1.0.1/32")},
			[]string{"10.0.0.1 10.1.0.1"}},
		"no loopback, link-local or lost addresses": {
			[]Contact{remote(t, "a", "10.0.0.1", "", lo+", eth0 10.0.0.1/8, eth0 fe80::1/64, eth1 169.254.7.7/16, "+
				"eth2- 10.2.0.1/16, ib0, eth3 fd00::1/64"), remote(t, "b", "10.0.0.2", "", "")},
			[]string{"10.0.0.1 fd00::1", "10.0.0.2"}},
		"SSH over a link of two": {
			[]Contact{remote(t, "a", "fe80::1%eth0", "fe80::9%eth0", "eth0 fe80::1/64, eth1 10.0.0.1/8"),
				remote(t, "b", "fe80::2%eth0", "fe80::9%eth0", "eth0 fe80::2/64")},
			[]string{"10.0.0.1", "fe80::2%eth0"}},
		"IPv4 as IPv6 tells it": {[]Contact{remote(t, "a", "::ffff:10.0.0.1", "", "eth0 10.0.0.1/8")},
			[]string{"10.0.0.1"}},
		"not over SSH": {[]Contact{remote(t, "a", "", "", ""), remote(t, "b", "", "", "eth0 10.0.0.2/8")},
			[]string{"127.0.0.1", "10.0.0.2"}},
		"reached through two tunnels": {
			[]Contact{remote(t, "a", "127.0.0.1", "127.0.0.1", lo+", eth0 10.0.0.1/8"),
				remote(t, "b", "127.0.0.1", "127.0.0.1", lo+", eth0 10.0.0.2/8")},
			[]string{"10.0.0.1", "10.0.0.2"}},
		"this machine as the others see it": {
			[]Contact{here(t, "wifi 192.168.0.9/24, eth0 10.0.0.9/8"),
				remote(t, "a", "10.0.0.1", "10.0.0.9", "eth0 10.0.0.1/8")},
			[]string{"10.0.0.9 192.168.0.9", "10.0.0.1"}},
		"this machine as any of the others see it": {
			[]Contact{remote(t, "a", "10.0.0.1", "1.2.3.4", ""), here(t, "wifi 192.168.0.9/24, eth0 10.0.0.9/30"),
				remote(t, "b", "10.0.0.2", "10.0.0.9", "")},
			[]string{"10.0.0.1", "10.0.0.9 192.168.0.9", "10.0.0.2"}},
		"this machine seen through NAT": {
			[]Contact{here(t, "wifi 192.168.0.9/24, eth0 10.0.0.9/8"),
				remote(t, "a", "10.0.0.1", "1.2.3.4", "eth0 10.0.0.1/8")},
			[]string{"10.0.0.9 192.168.0.9", "10.0.0.1"}},
		"this machine twice, and another": {
			[]Contact{here(t, lo+", eth0 10.0.0.9/8"), sshHere(t, "127.0.0.1", lo+", eth0 10.0.0.9/8"),
				remote(t, "a", "10.0.0.1", "10.0.0.9", "eth0 10.0.0.1/8")},
			[]string{"10.0.0.9", "10.0.0.9", "10.0.0.1"}},
	} {
		got, errs := chooseFrom(t, tc.hosts, "")
		err := errors.Join(errs...)
		check.That(t, err == nil && slices.Equal(got, tc.want), "%s: %q, %v; want %q", name, got, err, tc.want)
	}
}

// chooseFrom returns the addresses of each host in one string.
func chooseFrom(t *testing.T, hosts []Contact, asked string) (lists []string, errs []error) {
	t.Helper()
	network := must.Get(ParseNetwork(asked))(t)
	chosen, errs := Addresses(hosts, network)
	for _, list := range chosen {
		var words []string
		for _, a := range list {
			words = append(words, AddrText(a))
		}
		lists = append(lists, strings.Join(words, " "))
	}
	return lists, errs
}

// SSH_CONNECTION of this machine's own agent is the user's login, which says nothing
// about how the job's hosts see this machine.
func TestAddressesIgnoreTheUsersOwnLogin(t *testing.T) {
	me := here(t, "pub 203.0.113.9/24, eth0 10.0.0.9/8")
	me.Reached = "203.0.113.9"
	me.Caller = "203.0.113.9"
	got, _ := chooseFrom(t, []Contact{me, remote(t, "a", "10.0.0.1", "10.0.0.9", "")}, "")
	want := []string{"10.0.0.9 203.0.113.9", "10.0.0.1"}
	check.That(t, slices.Equal(got, want), "%q, want %q", got, want)
}

func TestAddressesThatTheUserAsksFor(t *testing.T) {
	two := func() []Contact {
		return []Contact{
			remote(t, "a", "10.0.0.1", "", lo+", eth0 10.0.0.1/16, ib0 10.9.0.1/16, ib1 fd09::1/64"),
			remote(t, "b", "10.0.0.2", "", lo+", eth0 10.0.0.2/16, ib0 10.9.0.2/16, ib1 fd09::2/64"),
		}
	}
	local := func() []Contact {
		return []Contact{here(t, lo+", eth0 10.0.0.9/8, eth1- 10.1.0.9/16"),
			sshHere(t, "127.5.6.1", lo+", eth0 10.0.0.9/8")}
	}
	for _, tc := range []struct {
		hosts []Contact
		asked string
		want  []string
	}{
		{two(), "ib0", []string{"10.9.0.1", "10.9.0.2"}},
		{two(), "ib*", []string{"10.9.0.1 fd09::1", "10.9.0.2 fd09::2"}},
		{two(), "ib0,eth0", []string{"10.0.0.1 10.9.0.1", "10.0.0.2 10.9.0.2"}},
		{two(), "10.9.0.0/16", []string{"10.9.0.1", "10.9.0.2"}},
		{two(), "10.0.0.2/32,10.9.0.1/32", []string{"10.9.0.1", "10.0.0.2"}},
		{[]Contact{remote(t, "a", "10.0.0.1", "", "eth0 10.0.0.1/8, eth1 10.0.0.1/8")}, "eth1", []string{"10.0.0.1"}},
		{two(), "^eth0", []string{"10.9.0.1 fd09::1", "10.9.0.2 fd09::2"}},
		{two(), "^10.0.0.0/8", []string{"fd09::1", "fd09::2"}},
		{two(), "*,^ib0", []string{"10.0.0.1 fd09::1", "10.0.0.2 fd09::2"}},
		{two(), "::/0", []string{"fd09::1", "fd09::2"}},
		// The address that SSH reached and the host does not tell of is of no interface.
		{[]Contact{remote(t, "a", "10.0.0.1", "", "eth0 10.9.0.1/16")}, "eth0", []string{"10.9.0.1"}},
		{[]Contact{remote(t, "a", "10.0.0.1", "", "eth0 10.9.0.1/16")}, "10.0.0.0/16", []string{"10.0.0.1"}},
		{[]Contact{remote(t, "a", "10.0.0.1", "", "eth0 10.9.0.1/16")}, "^docker*", []string{"10.0.0.1 10.9.0.1"}},
		// All hosts are this machine.
		{local(), "eth0", []string{"10.0.0.9", "10.0.0.9"}},
		{local(), "lo", []string{"127.0.0.1 ::1", "127.5.6.1 127.0.0.1 ::1"}},
		{local(), "eth0,127.0.0.0/8", []string{"127.0.0.1 10.0.0.9", "127.5.6.1 127.0.0.1 10.0.0.9"}},
		{local(), "^docker0", []string{"127.0.0.1", "127.5.6.1"}},
		{local(), "^lo", []string{"10.0.0.9", "10.0.0.9"}},
	} {
		got, errs := chooseFrom(t, tc.hosts, tc.asked)
		err := errors.Join(errs...)
		check.That(t, err == nil && slices.Equal(got, tc.want), "%s: %q, %v; want %q", tc.asked, got, err, tc.want)
	}
}

func TestHostsWithoutAnAddressThatWasAskedFor(t *testing.T) {
	hosts := []Contact{
		remote(t, "a", "10.0.0.1", "", lo+", eth0 10.0.0.1/16, eth0 fd00::1/64"),
		remote(t, "b", "10.0.0.2", "", "eth1 10.9.0.2/16, eth0- 10.0.0.2/16, ib0, eth2 169.254.1.2/16"),
		remote(t, "c", "10.0.0.3", "", ""),
	}
	const hint = "--network-interface"
	for asked, want := range map[string][]string{
		"eth9": {"eth9, and the host has lo 127.0.0.1/8 ::1/128, eth0 10.0.0.1/16 fd00::1/64",
			"eth9, and the host has eth1 10.9.0.2/16, eth0 10.0.0.2/16 (down), ib0 without an address, eth2 " +
				"169.254.1.2/16", "eth9, and the host has no interface"},
		"eth0,fd00::/64":    {"", "eth0,fd00::/64, and the host has eth1", "no interface"},
		"lo":                {"lo, and", "lo, and", "lo, and"}, // no host is this machine
		"169.254.0.0/16":    {"169.254.0.0/16, and", "169.254.0.0/16, and", "169.254.0.0/16, and"},
		"eth1,^10.9.0.0/16": {"eth1,^10.9.0.0/16, and", "eth1,^10.9.0.0/16, and", "eth1,^10.9.0.0/16, and"},
	} {
		// The second host's SSH address is on an interface that was down when it was looked at.
		hosts[1].Reached = "10.9.0.2"
		lists, errs := chooseFrom(t, hosts, asked)
		for i, w := range want {
			var missing *NetworkError
			switch {
			case w == "" && (errs[i] != nil || lists[i] == ""):
				t.Errorf("%s, host %d: %q, %v", asked, i, lists[i], errs[i])
			case w != "" && (!errors.As(errs[i], &missing) || !strings.Contains(errs[i].Error(), "asks for "+asked) ||
				!strings.Contains(errs[i].Error(), w)):
				t.Errorf("%s, host %d: %q, %v; want an error with %q", asked, i, lists[i], errs[i], w)
			case w != "" && !strings.Contains(missing.Hint(), hint):
				t.Errorf("hint %q", missing.Hint())
			}
		}
	}
}

func TestNetworkErrorStaysShortAndClean(t *testing.T) {
	var all []wire.Address
	for i := range 100 {
		all = append(all, wire.Address{Interface: fmt.Sprintf("v%d\x1b[1m", i), Up: true})
	}
	got := (&NetworkError{Asked: Network{text: "x"}, Has: all}).Error()
	check.That(t, len(got) <= 500 && !strings.Contains(got, "\x1b") &&
		strings.HasSuffix(got, "v7?[1m without an address, 92 more"), "%q", got)
}

func TestAddressesAreNotMoreThanARankTakes(t *testing.T) {
	var interfaces []string
	for i := range rankenv.MaxAddrs + 10 {
		interfaces = append(interfaces, fmt.Sprintf("e%d 10.%d.0.1/16", i, i))
	}
	got, _ := chooseFrom(t, []Contact{remote(t, "a", "10.3.0.1", "", strings.Join(interfaces, ", "))}, "")
	list := strings.Fields(got[0])
	check.That(t, len(list) == rankenv.MaxAddrs && list[0] == "10.3.0.1", "%d addresses: %q", len(list), list)
}

// The bounds of the hello and of a rank's environment hold whatever hosts say.
func FuzzAddresses(f *testing.F) {
	f.Add("10.0.0.1", "10.0.0.9", "eth0", "10.0.0.1/8", "^docker*", true, false)
	f.Add("fe80::1%eth0", "::1", "lo", "127.0.0.1/8", "lo,10.0.0.0/8", true, true)
	f.Add("", "x", "", "::ffff:1.2.3.4/128", "", false, true)
	f.Fuzz(func(t *testing.T, reached, caller, name, prefix, asked string, up, local bool) {
		network, err := ParseNetwork(asked)
		if err != nil {
			return
		}
		p, _ := netip.ParsePrefix(prefix)
		c := Contact{
			Local:     local,
			Reached:   reached,
			Caller:    caller,
			Addresses: []wire.Address{{Interface: name, Prefix: p, Up: up}, {Interface: "eth1", Prefix: p, Up: true}},
		}
		chosen, errs := Addresses([]Contact{c, c}, network)
		for i, list := range chosen {
			must.That(t, (len(list) == 0) == (errs[i] != nil), "%v, %v", list, errs[i])
			for j, a := range list {
				ip, err := netip.ParseAddr(AddrText(a))
				if err != nil || slices.ContainsFunc(list[:j], func(b wire.Address) bool {
					return AddrText(b) == ip.String()
				}) {
					t.Fatalf("%v: %v", list, err)
				}
				must.That(t, network.takes(a), "%s was not asked for by %q", ip, asked)
			}
		}
	})
}

// A host that does not say which kernel it runs is not taken for this machine: the ranks here would
// connect to their own loopback for it.
func TestHostWithoutKernelIsNotThisMachine(t *testing.T) {
	mute := remote(t, "", "127.0.0.1", "127.0.0.1", lo)
	check.That(t, !NewSurvey([]Contact{here(t, lo), mute}).Here, "it counts as this machine")
	check.That(t, NewSurvey([]Contact{here(t, lo), sshHere(t, "127.0.0.1", lo)}).Here, "this machine does not")
}
