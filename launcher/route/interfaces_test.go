package route

import (
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestInterfacesForLibrariesThatTryNoOtherAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		hosts []Contact
		want  []string // of each host
	}{
		"one host": {[]Contact{remote(t, "a", "10.0.0.1", "", lo+", eth0 10.0.0.1/16, eth1 10.9.0.1/16")},
			[]string{""}},
		"all this machine": {[]Contact{here(t, lo+", eth0 10.0.0.9/8"),
			sshHere(t, "127.5.6.1", lo+", eth0 10.0.0.9/8")},
			[]string{"lo", "lo"}},
		"two rails of one speed, in the order of the addresses": {
			[]Contact{remote(t, "a", "10.1.0.1", "", lo+", r0@100000 10.0.0.1/16, r1@100000 10.1.0.1/16"),
				remote(t, "b", "10.1.0.2", "", lo+", r0@100000 10.0.0.2/16, x1@100000 10.1.0.2/16")},
			[]string{"r1,r0", "x1,r0"}},
		"where SSH reached them is slow": {
			[]Contact{remote(t, "a", "10.0.0.1", "", "adm@1000 10.0.0.1/16, eth1@25000 10.1.0.1/16, eth2@25000 "+
				"10.2.0.1/16, eth3@40000 10.3.0.1/16"),
				remote(t, "b", "10.0.0.2", "",
					"adm@1000 10.0.0.2/16, eth1@25000 10.1.0.2/16, eth2@10000 10.2.0.2/16, eth3@40000 10.3.0.2/16")},
			[]string{"eth3,eth1", "eth3,eth1"}},
		"speeds that are not known beside one that is": {
			[]Contact{remote(t, "a", "10.0.0.1", "", "eth0@10000 10.0.0.1/16, wg0 10.8.0.1/24"),
				remote(t, "b", "10.0.0.2", "", "eth0@10000 10.0.0.2/16, wg0 10.8.0.2/24")},
			[]string{"eth0", "eth0"}},
		"a network that one host is not in": {
			[]Contact{remote(t, "a", "10.0.0.1", "", "eth0 10.0.0.1/16, eth1 10.1.0.1/16"),
				remote(t, "b", "10.0.0.2", "", "eth0 10.0.0.2/16, eth1 10.1.0.2/16"),
				remote(t, "c", "10.0.0.3", "", "eth0 10.0.0.3/16, eth1 10.2.0.3/16")},
			[]string{"eth0", "eth0", "eth0"}},
		"no network in common": {
			[]Contact{remote(t, "a", "10.0.0.1", "", "eth0 10.0.0.1/24, eth1 10.9.0.1/24"),
				remote(t, "b", "10.5.0.2", "", "eth5 10.5.0.2/24")},
			[]string{"eth0", "eth5"}},
		"an address alone is no network": {
			[]Contact{remote(t, "a", "10.0.0.1", "", "eth0 10.0.0.1/32, eth1 10.1.0.1/24"),
				remote(t, "b", "10.0.0.2", "", "eth0 10.0.0.2/32, eth1 10.1.0.2/24")},
			[]string{"eth1", "eth1"}},
		"bridges for containers": {
			[]Contact{remote(t, "a", "10.0.0.1", "", "eth0 10.0.0.1/16, docker0 172.17.0.1/16, br-1 172.18.0.1/16"),
				remote(t, "b", "10.0.0.2", "", "eth0 10.0.0.2/16, docker0 172.17.0.2/16, br-1 172.18.0.1/16")},
			[]string{"eth0", "eth0"}},
		"IPv6 beside IPv4, and alone": {
			[]Contact{remote(t, "a", "10.0.0.1", "", "eth0 10.0.0.1/16, eth1 fd00::1/64"),
				remote(t, "b", "10.0.0.2", "", "eth0 10.0.0.2/16, eth1 fd00::2/64")},
			[]string{"eth0", "eth0"}},
		"IPv6 alone": {
			[]Contact{remote(t, "a", "fd00::1", "", "eth1 fd00::1/64"),
				remote(t, "b", "fd00::2", "", "eth1 fd00::2/64")},
			[]string{"eth1", "eth1"}},
		"a host that tells of nothing": {
			[]Contact{remote(t, "a", "10.0.0.1", "", ""), remote(t, "b", "10.0.0.2", "", "eth0 10.0.0.2/8")},
			[]string{"", "eth0"}},
	} {
		survey := NewSurvey(tc.hosts)
		chosen, _ := survey.Addresses(tc.hosts, Network{})
		var got []string
		for _, names := range survey.Interfaces(chosen) {
			got = append(got, strings.Join(names, ","))
		}
		check.That(t, slices.Equal(got, tc.want), "%s: %q, want %q", name, got, tc.want)
	}
}
