package attacks

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/sockets"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// strangerEnv makes TestStranger connect to the addresses in its value.
const strangerEnv = "GORUN_TEST_STRANGER"

// call is the result of one connection attempt.
type call struct {
	Addr  string
	Open  bool
	Reply string
}

// TestStranger runs only as a process that other tests start on another host.
func TestStranger(t *testing.T) {
	addrs := os.Getenv(strangerEnv)
	if addrs == "" {
		return
	}
	for _, addr := range strings.Split(addrs, ",") {
		for _, text := range []string{"", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "SSH-2.0-x\r\n",
			"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03", "gorunrng\x00\x02"} {
			line := must.Get(json.Marshal(callAt(addr, text)))(t)
			fmt.Printf("%s\n", line)
		}
	}
}

func callAt(addr, text string) call {
	c := call{Addr: addr}
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return c
	}
	defer conn.Close()
	c.Open = true
	_, _ = conn.Write([]byte(text)) // it may be cut off at once
	_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	got, _ := io.ReadAll(conn) // an error is an end as well
	c.Reply = string(got)
	return c
}

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

// scan connects from f3 to every port of a host, on the host's own address. It counts the rank
// servers on loopback, which must not answer there, and the open ports.
func scan(t *testing.T, c *lab.Cluster, host string) (servers, open int) {
	t.Helper()
	var addrs []string
	for at, loopback := range portsOf(t, c, host) {
		switch {
		case loopback:
			servers++
		case at.Addr().IsUnspecified():
			t.Errorf("%s: something listens on every address: %s", host, at)
		}
		addrs = append(addrs, netip.AddrPortFrom(netip.MustParseAddr(c.Host(host).Addr), at.Port()).String())
	}
	if len(addrs) == 0 {
		return 0, 0
	}
	out, err := c.On(t.Context(), "f3", "env", strangerEnv+"="+strings.Join(addrs, ","), os.Args[0],
		"-test.run=^TestStranger$").Output()
	must.That(t, err == nil, "the stranger: %v: %s", err, out)
	for line := range strings.Lines(string(out)) {
		var made call
		if json.Unmarshal([]byte(line), &made) != nil {
			continue // of the test's own
		}
		if made.Open {
			open++
		}
		check.Equal(t, made.Reply, "", made.Addr, "answers a stranger")
	}
	return servers, open
}

// S1: a job listens only on the agents' and Horovod's rank servers, on loopback, and on the ranks'
// own ports, some of which stay open with so many ranks. An unauthenticated peer on the network
// gets no byte from either, and the job goes on.
func TestUnauthenticatedPeersGetNothing(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(3)...)
	for _, encrypt := range []string{"--encrypt", "--encrypt=false"} {
		r := command.Start(t, c, encrypt, "-np", "18", "-H", "f1:9,f2:9", "-x", "RING_TRANSPORT=tcp",
			command.Binary("mnist"), "--epochs", "100000")
		trained := func() {
			t.Helper()
			before := r.Out.Len()
			for begun := time.Now(); r.Out.Len() == before; time.Sleep(20 * time.Millisecond) {
				must.That(t, time.Since(begun) <= command.Limit/2, "the ranks do not train:\n%s", &r.Err)
			}
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
