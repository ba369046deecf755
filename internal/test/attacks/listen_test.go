package attacks

import (
	"net/netip"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorun/gorun/internal/net/sockets"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// portsOf returns the listening ports of a host without its sshd's, and whether each is on loopback
// only.
func portsOf(t *testing.T, c *lab.Cluster, host string) map[netip.AddrPort]bool {
	t.Helper()
	text := must.Get(c.On(t.Context(), host, "cat", "/proc/net/tcp", "/proc/net/tcp6").Output())(t)
	found := map[netip.AddrPort]bool{}
	for s := range sockets.Table(string(text)) {
		if s.State == sockets.Listen && s.Local.Port() != 22 {
			found[s.Local] = s.Local.Addr().IsLoopback()
		}
	}
	return found
}

// scan greets every port of a host from f3, on the host's own address. It counts the rank servers
// on loopback, which must not answer there, and the connections that came through.
func scan(t *testing.T, c *lab.Cluster, host string) (servers, open int) {
	t.Helper()
	var connected atomic.Int64
	var ports sync.WaitGroup
	for at, loopback := range portsOf(t, c, host) {
		switch {
		case loopback:
			servers++
		case at.Addr().IsUnspecified():
			t.Errorf("%s: something listens on every address: %s", host, at)
		}
		addr := netip.AddrPortFrom(netip.MustParseAddr(c.Host(host).Addr), at.Port()).String()
		ports.Go(func() {
			connected.Add(int64(greet(t, func() *exec.Cmd {
				return onAs(t, c, "f3", attacker, `exec "$@"`, command.Binary("caller"), addr)
			}, "")))
		})
	}
	ports.Wait()
	return servers, int(connected.Load())
}

// S1: a job listens only on the agents' and Horovod's rank servers, on loopback, and on the ranks'
// own ports, some of which stay open with so many ranks. An unauthenticated peer on the network
// gets no byte from either, and the job goes on.
func TestUnauthenticatedPeersGetNothing(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(3)...)
	for _, encrypt := range []string{"--encrypt", "--encrypt=false"} {
		r := command.StartWithin(t, c, siegeTime, command.Binary("gorun"), nil, encrypt, "-np", "18", "-H", "f1:9,f2:9",
			"-x", "RING_TRANSPORT=tcp", command.Binary("mnist"), "--epochs", "100000")
		trained := func() {
			t.Helper()
			before := r.Out.Len()
			must.Until(t, "training", func() bool { return r.Out.Len() > before })
		}
		trained()
		ports := 0
		for _, host := range []string{"f1", "f2"} {
			servers, open := scan(t, c, host)
			check.That(t, servers == 1+9,
				"%s: %d rank servers on loopback, want the agent's and Horovod's of 9 ranks", host, servers)
			ports += open
		}
		check.That(t, ports != 0, "no rank listens any more, so nothing is shown")
		t.Logf("%s: %d calls came through to ranks", encrypt, ports)
		trained()
		r.Stop()
	}
}
