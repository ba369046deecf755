package seat

import (
	"io/fs"
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
)

// nicsOf are addresses of interfaces: "eth0 lo! ib0".
func nicsOf(names string) (own []wire.Address) {
	for i, name := range strings.Fields(names) {
		name, loopback := strings.CutSuffix(name, "!")
		own = append(own, wire.Address{
			Interface: name,
			Up:        true,
			Loopback:  loopback,
			Prefix:    netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 1}), 16),
		})
	}
	return own
}

// NCCL_SOCKET_IFNAME is there only where NCCL would choose otherwise.
func TestSocketInterfacesOnlyWhereTheyHelp(t *testing.T) {
	root := fstest.MapFS{}
	link := func(name, target string) {
		root[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
	}
	link("sys/bus/pci/devices/0000:02:00.0", "../../../devices/pci0000:00/0000:00:01.0/0000:01:01.0/0000:02:00.0")
	link("sys/class/net/eth0", "../../devices/pci0000:00/0000:00:01.0/0000:01:02.0/0000:03:00.0/net/eth0")
	link("sys/class/net/eth1", "../../devices/pci0000:80/0000:80:01.0/0000:81:00.0/net/eth1")
	const gpu = "0000:02:00.0"
	for _, tc := range []struct {
		name, own, wanted, gpus, want string
		asked                         bool
	}{
		{name: "the only one", own: "lo! eth0", wanted: "eth0"},
		{name: "beside Docker's", own: "lo! eth0 docker0", wanted: "eth0"},
		{name: "beside another bridge", own: "lo! eth0 br-1", wanted: "eth0", want: "eth0"},
		{name: "beside libvirt's, which old ones take", own: "lo! eth0 virbr0", wanted: "eth0", want: "eth0"},
		{name: "loopback", own: "lo! eth0", wanted: "lo", want: "lo"},
		{name: "both", own: "eth0 eth1", wanted: "eth1,eth0"},
		{name: "one of two", own: "eth0 eth1", wanted: "eth1", want: "eth1"},
		{name: "InfiniBand's, as usual", own: "eth0 ib0 ib1", wanted: "ib0,ib1"},
		{name: "not InfiniBand's", own: "eth0 ib0", wanted: "eth0", want: "eth0"},
		{name: "the user says so", own: "eth0", wanted: "eth0", asked: true, want: "eth0"},
		{name: "a VLAN is not meant", own: "eth0 eth0.7", wanted: "eth0", want: "=eth0"},
		{name: "a VLAN is meant", own: "eth0 eth0.7", wanted: "eth0.7", want: "eth0.7"},
		{name: "both are meant", own: "eth0 eth0.7 br0", wanted: "eth0,eth0.7", want: "eth0,eth0.7"},
		{name: "near the GPU", own: "eth0 eth1", wanted: "eth1,eth0", gpus: gpu, want: "eth0"},
		{name: "the far one is the only one", own: "eth0 eth1", wanted: "eth1", gpus: gpu, want: "eth1"},
		{name: "none", own: "eth0"},
	} {
		start := wire.Start{Asked: tc.asked}
		if tc.wanted != "" {
			start.Interfaces = strings.Split(tc.wanted, ",")
		}
		check.Equal(t, socketInterfaces(root, start, nicsOf(tc.own), strings.Fields(tc.gpus)), tc.want, tc.name)
	}
}

func TestInterfaceNames(t *testing.T) {
	own := nicsOf("lo! eth0 br-1")
	for name, tc := range map[string]struct {
		ranks, size int
		elastic     bool
		start       wire.Start
		want        Interfaces
	}{
		"all ranks here": {2, 2, false, wire.Start{Addrs: []string{"10.1.0.1"}}, Interfaces{"lo", "lo"}},
		"some elsewhere": {2, 4, false,
			wire.Start{Addrs: []string{"10.1.0.1"}, Interfaces: []string{"eth0"}}, Interfaces{"eth0", "eth0"}},
		"nothing else is shared": {2, 4, false, wire.Start{Addrs: []string{"10.1.0.1"}},
			Interfaces{"eth0", "eth0"}},
		"elastic, so always":         {1, 1, true, wire.Start{Addrs: []string{"10.2.0.1"}}, Interfaces{"br-1", "br-1"}},
		"an address that nobody has": {2, 4, false, wire.Start{Addrs: []string{"1.2.3.4"}}, Interfaces{}},
		"no address":                 {2, 4, false, wire.Start{}, Interfaces{}},
	} {
		job := wire.Job{Size: tc.size, Ranks: make([]wire.Rank, tc.ranks)}
		if tc.elastic {
			job.Elastic = &wire.Elastic{}
		}
		check.Equal(t, new(Host).Interfaces(own, job, tc.start), tc.want, name)
	}
	job := wire.Job{Size: 1, Ranks: make([]wire.Rank, 1), Elastic: &wire.Elastic{}}
	got := new(Host).Interfaces(nicsOf("lo! eth0"), job, wire.Start{Addrs: []string{"10.1.0.1"}}).NCCL
	check.That(t, got == "eth0",
		"in an elastic job %q, want eth0 although NCCL would choose it: other hosts may have more", got)
}

func TestInterfaceOf(t *testing.T) {
	own := []wire.Address{
		{Interface: "eth0", Prefix: netip.MustParsePrefix("10.0.0.1/16")},
		{Interface: "ib0", Prefix: netip.MustParsePrefix("10.1.0.1/16")},
		{Interface: "ib0", Prefix: netip.MustParsePrefix("fe80::1/64")},
		{Interface: "idle0"},
		{Interface: "lo", Loopback: true, Prefix: netip.MustParsePrefix("::1/128")},
		{Interface: "lo0", Loopback: true, Prefix: netip.MustParsePrefix("127.0.0.1/8")},
	}
	for _, tc := range []struct {
		addr  string
		alone bool
		want  string
	}{
		{"10.0.0.1", false, "eth0"}, {"10.1.0.1", false, "ib0"}, {"fe80::1%ib0", false, "ib0"},
		{"127.0.0.1", false, "lo0"},
		{"10.0.0.1", true, "lo0"}, {"", true, "lo0"},
		{"10.9.9.9", false, ""}, {"", false, ""},
	} {
		check.Equal(t, interfaceOf(own, tc.addr, tc.alone), tc.want, tc.addr, "alone", tc.alone)
	}
}
