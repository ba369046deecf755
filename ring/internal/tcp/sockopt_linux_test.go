package tcp

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

func TestCongestion(t *testing.T) {
	lab.NeedKernel(t, "TCP_CONGESTION of three letters")
	system := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	defer unix.Close(system)
	normal := must.Get(unix.GetsockoptString(system, unix.IPPROTO_TCP, unix.TCP_CONGESTION))(t)
	for asked, want := range map[string]string{"": "reno", "reno": "reno", normal: normal} {
		nets := meetAll(t, 2, func(int) *Net {
			return openWith(t, secure.Config{Stripes: 2, Congestion: asked})
		})
		linkUp(t, nets)
		for rank, n := range nets {
			for _, s := range n.links[1-rank].conns {
				got := must.Get(unix.GetsockoptString(s.(socket).FD, unix.IPPROTO_TCP, unix.TCP_CONGESTION))(t)
				check.Equal(t, got, want, "asked for", asked, "on loopback")
			}
		}
	}
	if n, err := Listen(testContext(t), []netip.Addr{loopback()},
		Config{Config: secure.Config{Stripes: 1, Congestion: "none such"}}); err == nil {
		n.Close()
		t.Error("listens with a congestion control that does not exist")
	}
}
