package seat

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

func TestAddressesOfAnInterface(t *testing.T) {
	const up = net.FlagUp | net.FlagRunning
	two := []netip.Prefix{netip.MustParsePrefix("10.0.0.1/8"), netip.MustParsePrefix("fd00::1/64")}
	for name, tc := range map[string]struct {
		nic   net.Interface
		addrs []netip.Prefix
		want  []wire.Address
	}{
		"up": {net.Interface{Name: "eth0", Flags: up}, two, []wire.Address{
			{Interface: "eth0", Prefix: netip.MustParsePrefix("10.0.0.1/8"), Up: true, Speed: 1000},
			{Interface: "eth0", Prefix: netip.MustParsePrefix("fd00::1/64"), Up: true, Speed: 1000}}},
		"no cable": {net.Interface{Name: "eth0", Flags: net.FlagUp}, two[:1],
			[]wire.Address{{Interface: "eth0", Prefix: netip.MustParsePrefix("10.0.0.1/8"), Speed: 1000}}},
		"loopback": {net.Interface{Name: "lo", Flags: up | net.FlagLoopback}, two[:1],
			[]wire.Address{{Interface: "lo", Prefix: netip.MustParsePrefix("10.0.0.1/8"), Up: true, Loopback: true,
				Speed: 1000}}},
		"no address": {net.Interface{Name: "ib0", Flags: up}, nil,
			[]wire.Address{{Interface: "ib0", Up: true, Speed: 1000}}},
	} {
		check.Slice(t, addressesOf(tc.nic, tc.addrs, 1000), tc.want, name)
	}
}

func TestOwnAddressesAreTheHosts(t *testing.T) {
	addrs, err := net.InterfaceAddrs()
	must.That(t, err == nil && len(addrs) != 0, "%v, %v", addrs, err)
	if len(addrs) > wire.MaxAddresses {
		lab.Skip(t, "this machine has more addresses than a hello tells of")
	}
	own := Addresses()
	for _, want := range addrs {
		check.That(t, slices.ContainsFunc(own, func(a wire.Address) bool { return a.Prefix.String() == want.String() }),
			"%s is not in %v", want, own)
	}
	if n := len(slices.DeleteFunc(slices.Clone(own), func(a wire.Address) bool {
		return !a.Prefix.IsValid()
	})); n != len(addrs) {
		t.Errorf("%d addresses, want %d: %v", n, len(addrs), own)
	}
	for _, a := range own {
		_, err := net.InterfaceByName(a.Interface)
		check.That(t, err == nil && a.Loopback == (a.Interface == "lo") && a.Speed >= 0, "%+v: %v", a, err)
	}
}

// The kernel also reports the far address of a point-to-point interface.
func TestParseAddress(t *testing.T) {
	message := func(kind uint16, data ...byte) syscall.NetlinkMessage {
		index := binary.NativeEndian.AppendUint32(nil, 7)
		header := append([]byte{syscall.AF_INET, 24, 0, 0}, index...)
		return syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: kind}, Data: append(header, data...)}
	}
	attribute := func(kind uint16, value ...byte) []byte {
		b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
		return append(binary.NativeEndian.AppendUint16(b, kind), value...)
	}
	far := attribute(syscall.IFA_ADDRESS, 10, 0, 0, 2)
	near := attribute(syscall.IFA_LOCAL, 10, 0, 0, 1)
	for name, tc := range map[string]struct {
		m    syscall.NetlinkMessage
		want string
	}{
		"an address":       {message(syscall.RTM_NEWADDR, far...), "10.0.0.2/24"},
		"one of two ends":  {message(syscall.RTM_NEWADDR, slices.Concat(far, near)...), "10.0.0.1/24"},
		"in another order": {message(syscall.RTM_NEWADDR, slices.Concat(near, far)...), "10.0.0.1/24"},
		"no address":       {message(syscall.RTM_NEWADDR), "invalid Prefix"},
		"another message":  {message(syscall.RTM_NEWLINK, far...), "invalid Prefix"},
		"cut": {syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: syscall.RTM_NEWADDR},
			Data: []byte{2, 24}}, "invalid Prefix"},
		"a cut attribute": {message(syscall.RTM_NEWADDR, far[:5]...), "invalid Prefix"},
	} {
		index, got := parseAddress(tc.m)
		check.That(t, got.String() == tc.want && (!got.IsValid() || index == 7),
			"%s: interface %d, %s; want %s", name, index, got, tc.want)
	}
}

func TestForemostAddressesStay(t *testing.T) {
	at := func(name, prefix string, up, loopback bool) wire.Address {
		a := wire.Address{Interface: name, Up: up, Loopback: loopback}
		if prefix != "" {
			a.Prefix = netip.MustParsePrefix(prefix)
		}
		return a
	}
	var all []wire.Address
	for i := range 300 {
		all = append(all, at(fmt.Sprintf("veth%d", i), fmt.Sprintf("fe80::%x/64", i+1), true, false),
			at(fmt.Sprintf("sit%d", i), "", true, false))
	}
	of := []wire.Address{at("eth1", "10.1.0.1/16", true, false), at("eth0", "10.0.0.1/16", true, false),
		at("eth2", "10.2.0.1/16", false, false), at("lo", "127.0.0.1/8", true, true)}
	all = append(all, of[3], of[2], of[0], of[1])
	got := foremost(all, 6)
	want := append(slices.Clone(of), at("veth0", "fe80::1/64", true, false), at("veth1", "fe80::2/64", true, false))
	check.That(t, slices.Equal(got, want), "%v, want %v", got, want)
	got = foremost(slices.Clone(of), 99)
	check.That(t, len(got) == len(of), "%v, want all", got)
}

func TestReadSpeed(t *testing.T) {
	class := t.TempDir()
	for text, want := range map[string]int{"100000\n": 100000, "-1\n": 0, "4294967295\n": 0, "": 0, "fast\n": 0,
		"0\n": 0} {
		must.OK(t, os.MkdirAll(filepath.Join(class, "eth0"), 0o755))
		must.OK(t, os.WriteFile(filepath.Join(class, "eth0", "speed"), []byte(text), 0o644))
		check.Equal(t, readSpeed(class, "eth0"), want, text)
	}
	check.Equal(t, readSpeed(class, "none"), 0, "no file")
}
