package secure

import (
	"net/netip"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

// A member connects to no service of its own, nor of a whole link, because another one says that it
// listens there.
func TestOwnServicesAreNotDialled(t *testing.T) {
	for at, own := range map[string][2]string{ // own addresses for which the address is dialled, and is not
		"127.0.0.1:6379":          {"127.0.0.1", "10.0.0.1"},
		"[::1]:6379":              {"::1", "fd00::1"},
		"169.254.7.7:8080":        {"169.254.1.1", "10.0.0.1"},
		"[::ffff:127.0.0.1]:6379": {"127.0.0.1", "10.0.0.1"},
		"10.0.0.2:22":             {"", "10.0.0.1"},
		"0.0.0.0:6379":            {"", "10.0.0.1"},
		"224.0.0.1:6379":          {"", "10.0.0.1"},
		"10.0.0.2:40000":          {"10.0.0.1", ""},
		"[fd00::2]:40000":         {"fd00::1", ""},
	} {
		addrs := []netip.AddrPort{netip.MustParseAddrPort(at)}
		for i, text := range own {
			if text == "" {
				continue
			}
			all := Dialable(addrs, []netip.Addr{netip.MustParseAddr(text)})
			check.That(t, len(all) == 1-i, "a host at %s dials %v for %s", text, all, at)
		}
	}
}
