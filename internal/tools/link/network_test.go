package link_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/tools/link"
)

// enough is longer than any load of the machine makes a frame wait.
const enough = 5 * time.Minute

// host is a network namespace without a process. It ends with its file.
type host struct {
	file *os.File
	addr netip.Addr
	port *link.Port
}

func (h *host) path() string { return fmt.Sprintf("/proc/self/fd/%d", h.file.Fd()) }

// do runs f in the host's network.
func (h *host) do(t *testing.T, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good
		err := unix.Setns(int(h.file.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			err = f()
		}
		done <- err
	}()
	must.OK(t, <-done)
}

// newHosts joins so many hosts.
func newHosts(t *testing.T, n int) (*link.Network, []*host) {
	t.Helper()
	if os.Getuid() != 0 {
		lab.Skip(t, "needs root")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		lab.Skip(t, err.Error())
	}
	network := must.Get(link.New(1))(t)
	t.Cleanup(func() { check.OK(t, network.Close()) })
	var hosts []*host
	for i := range n {
		h := &host{addr: netip.AddrFrom4([4]byte{10, 90, 0, byte(i + 1)})}
		made := make(chan error)
		go func() {
			runtime.LockOSThread() // for good
			err := unix.Unshare(unix.CLONE_NEWNET)
			if err == nil {
				h.file, err = os.Open("/proc/thread-self/ns/net")
			}
			made <- err
		}()
		must.OK(t, <-made)
		t.Cleanup(func() { h.file.Close() })
		h.port = must.Get(network.Join(h.path(), "wan0", netip.PrefixFrom(h.addr, 24)))(t)
		hosts = append(hosts, h)
	}
	return network, hosts
}

// datagrams opens a UDP socket of the host.
func (h *host) datagrams(t *testing.T) *net.UDPConn {
	t.Helper()
	var conn *net.UDPConn
	h.do(t, func() (err error) {
		conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: h.addr.AsSlice(), Port: 7000})
		return err
	})
	t.Cleanup(func() { conn.Close() })
	must.OK(t, conn.SetDeadline(time.Now().Add(enough)))
	return conn
}

func send(t *testing.T, conn *net.UDPConn, to *host, text string) {
	t.Helper()
	must.Get(conn.WriteToUDP([]byte(text), &net.UDPAddr{IP: to.addr.AsSlice(), Port: 7000}))(t)
}

func receive(t *testing.T, conn *net.UDPConn, want string) {
	t.Helper()
	text := make([]byte, 100)
	n, err := conn.Read(text)
	must.That(t, err == nil && string(text[:n]) == want, "%q, %v, want %q", text[:n], err, want)
}

func TestEachDirectionHasItsDelay(t *testing.T) {
	network, hosts := newHosts(t, 3)
	a := hosts[0].datagrams(t)
	c := hosts[2].datagrams(t)
	send(t, a, hosts[2], "hello") // so that the hosts know each other's Ethernet addresses
	receive(t, c, "hello")
	hosts[0].port.Out(link.Line{Delay: 10 * time.Millisecond})
	network.Path(hosts[0].port, hosts[2].port, link.Line{Delay: 20 * time.Millisecond})
	hosts[2].port.In(link.Line{Delay: 30 * time.Millisecond})
	begun := time.Now()
	send(t, a, hosts[2], "there")
	receive(t, c, "there")
	took := time.Since(begun)
	check.That(t, took >= 60*time.Millisecond, "there: %v", took)
	hosts[2].port.Out(link.Line{Delay: 25 * time.Millisecond})
	begun = time.Now()
	send(t, c, hosts[0], "back")
	receive(t, a, "back")
	took = time.Since(begun)
	check.That(t, took >= 25*time.Millisecond, "back: %v", took)
	s := network.Stats()
	check.That(t, s.Delivered >= 3 && s.Dropped <= 0 && s.Latest >= s.Late, "%+v", s)
}

func TestOneDirectionLosesAll(t *testing.T) {
	network, hosts := newHosts(t, 3)
	a := hosts[0].datagrams(t)
	b := hosts[1].datagrams(t)
	c := hosts[2].datagrams(t)
	send(t, a, hosts[1], "hello")
	receive(t, b, "hello")
	send(t, b, hosts[0], "hello")
	receive(t, a, "hello")
	network.Path(hosts[0].port, hosts[1].port, link.Line{Loss: 1})
	network.Stats()
	for range 10 {
		send(t, a, hosts[1], "lost")
		send(t, b, hosts[0], "kept")
	}
	for range 10 {
		receive(t, a, "kept")
	}
	send(t, a, hosts[2], "after the lost ones")
	receive(t, c, "after the lost ones")
	s := network.Stats()
	check.That(t, s.Dropped >= 10, "%+v", s)
	network.Path(hosts[0].port, hosts[1].port, link.Line{})
	send(t, a, hosts[1], "again")
	receive(t, b, "again") // and nothing before it
}

func TestRateBoundsAStream(t *testing.T) {
	for what, l := range map[string]link.Line{"whole segments": {Rate: 100e6},
		"single packets, some lost": {Rate: 100e6, Loss: 0.002}} {
		t.Run(what, func(t *testing.T) {
			_, hosts := newHosts(t, 2)
			hosts[0].port.Out(l)
			data := make([]byte, 2<<20)
			rand.NewChaCha8([32]byte{}).Read(data)
			var listener, conn net.Conn
			var at net.Listener
			hosts[1].do(t, func() (err error) {
				at, err = net.Listen("tcp4", netip.AddrPortFrom(hosts[1].addr, 7000).String())
				return err
			})
			defer at.Close()
			hosts[0].do(t, func() (err error) {
				conn, err = net.Dial("tcp4", at.Addr().String())
				return err
			})
			defer conn.Close()
			listener, err := at.Accept()
			must.OK(t, err)
			defer listener.Close()
			for _, c := range []net.Conn{conn, listener} {
				must.OK(t, c.SetDeadline(time.Now().Add(enough)))
			}
			begun := time.Now()
			sent := make(chan error, 1)
			go func() {
				_, err := conn.Write(data)
				sent <- err
			}()
			got := make([]byte, len(data))
			_, err = io.ReadFull(listener, got)
			check.That(t, err == nil && bytes.Equal(got, data), "received otherwise than sent: %v", err)
			took := time.Since(begun)
			check.OK(t, <-sent)
			least := time.Duration(float64(len(data)) * 8 / l.Rate * float64(time.Second))
			check.That(t, took >= least, "took %v, less than %v", took, least)
		})
	}
}

func TestRemovedInterfaceLeavesTheOthers(t *testing.T) {
	lab.Need(t, "ip")
	network, hosts := newHosts(t, 3)
	hosts[1].do(t, exec.Command("ip", "link", "del", "wan0").Run)
	hosts[0].port.In(link.Line{Loss: 0.5})
	hosts[0].port.In(link.Line{})
	a := hosts[0].datagrams(t)
	c := hosts[2].datagrams(t)
	for range 3 {
		send(t, a, hosts[2], "hello")
		receive(t, c, "hello")
	}
	check.Error(network.Join("/proc/self/fd/99999", "wan0", netip.MustParsePrefix("10.90.0.9/24"))).Any(t,
		"a namespace that does not exist is joined")
}
