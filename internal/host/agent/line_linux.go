package agent

import (
	"errors"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/net/sockets"
	"github.com/gorun/gorun/internal/net/wire"
)

// line is the TCP connection that sshd has to the launcher's side. Every process in sshd's network
// namespace may ask the kernel about it.
type line struct {
	kernel *sockets.Kernel
	local  netip.AddrPort
	remote netip.AddrPort
	last   *sockets.Socket // last reading, which identifies the socket: ports are used again
	period *time.Ticker
}

// lineOf finds the connection. Without SSH, or in another network namespace than sshd's, it returns
// nil: only the lease ends the ranks then.
func lineOf(job wire.Job) *line {
	if !job.SSH {
		return nil
	}
	l, err := openLine(os.Getenv("SSH_CONNECTION"))
	if err != nil {
		return nil
	}
	return l
}

// openLine finds the connection that SSH_CONNECTION names: "client-ip client-port server-ip
// server-port".
func openLine(sshConnection string) (*line, error) {
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
	l := &line{
		kernel: kernel,
		local:  local,
		remote: remote,
		period: time.NewTicker(readPeriod),
	}
	if _, err := l.read(); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
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

// due fires when the connection must be read.
func (l *line) due() <-chan time.Time {
	if l == nil {
		return nil
	}
	return l.period.C
}

// event reads the state of the connection. When it is closed, sshd ends the agent's stdin soon.
func (l *line) event() event {
	r, err := l.read()
	if err != nil {
		return eventTick{}
	}
	return eventReading{r}
}

// read asks the kernel. An error means that the connection does not exist, or no longer.
func (l *line) read() (lineReading, error) {
	s, err := l.kernel.Connection(l.local, l.remote, l.last)
	if err != nil {
		return lineReading{}, err
	}
	l.last = &s
	info, known := s.Info()
	if !known {
		return lineReading{}, errors.New("the kernel's answer has nothing about the connection")
	}
	return lineReading{
		acked:    info.Bytes_acked,
		received: info.Bytes_received,
		unacked:  int(info.Unacked),
		retries:  int(info.Retransmits),
		probes:   int(info.Probes),
		full:     info.Snd_wnd == 0,
		heard:    time.Duration(info.Last_ack_recv) * time.Millisecond,
	}, nil
}

func (l *line) close() {
	if l != nil {
		l.period.Stop()
		l.kernel.Close()
	}
}
