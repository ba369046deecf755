package link

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/net/sockets"
)

// Connection is the TCP connection that sshd has to the launcher's side. Every process in sshd's
// network namespace may ask the kernel about it.
type Connection struct {
	kernel *sockets.Kernel
	local  netip.AddrPort
	remote netip.AddrPort
	last   *sockets.Socket // last reading, which identifies the socket: ports are used again
}

// Open finds the connection that SSH_CONNECTION names: "client-ip client-port server-ip
// server-port".
func Open(sshConnection string) (*Connection, error) {
	words := strings.Fields(sshConnection)
	if len(words) != 4 {
		return nil, errors.New("no SSH_CONNECTION")
	}
	remote, err := addrPort(words[0], words[1])
	if err != nil {
		return nil, err
	}
	local, err := addrPort(words[2], words[3])
	if err != nil {
		return nil, err
	}
	kernel, err := sockets.Open()
	if err != nil {
		return nil, err
	}
	c := &Connection{kernel: kernel, local: local, remote: remote}
	if _, err := c.Read(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func addrPort(ip, port string) (netip.AddrPort, error) {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return netip.AddrPort{}, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), nil
}

func (c *Connection) Close() { c.kernel.Close() }

// Read asks the kernel. An error means that the connection does not exist, or no longer.
func (c *Connection) Read() (Reading, error) {
	s, err := c.kernel.Connection(c.local, c.remote, c.last)
	if err != nil {
		return Reading{}, err
	}
	c.last = &s
	info, known := s.Info()
	if !known {
		return Reading{}, errors.New("the kernel's answer has nothing about the connection")
	}
	return Reading{
		Acked:    info.Bytes_acked,
		Received: info.Bytes_received,
		Unacked:  int(info.Unacked),
		Retries:  int(info.Retransmits),
		Probes:   int(info.Probes),
		Full:     info.Snd_wnd == 0,
		Heard:    time.Duration(info.Last_ack_recv) * time.Millisecond,
	}, nil
}
