package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/host/process"
	"github.com/gorun/gorun/internal/sight/ras"
)

const (
	rasLimit = 2500 * time.Millisecond
	rasTries = 8 // a user's jobs may share the port, and the kernel chooses one of them
)

// errElsewhere is why there is no answer of RAS.
var errElsewhere = errors.New("another job of the user answers on its port")

// rasPort returns the port of NCCL's RAS service for the process.
func (s *subject) rasPort() string {
	_, port, _ := net.SplitHostPort(cmp.Or(s.env("NCCL_RAS_ADDR"), ras.DefaultAddr))
	return port
}

// rasAddr returns where the process listens for clients of NCCL's RAS service, if it does, and if
// this process reaches it.
func (s *subject) rasAddr() (addr netip.AddrPort, found bool) {
	if s.own == nil {
		return addr, false
	}
	for _, name := range s.sockets(socketNames(s.own), math.MaxInt) {
		text, listens := strings.CutSuffix(strings.TrimPrefix(name, "tcp "), " (listening)")
		a, err := netip.ParseAddrPort(text)
		if !listens || err != nil || fmt.Sprint(a.Port()) != s.rasPort() {
			continue
		}
		theirs := s.own.Link("ns/net")
		ours, _ := os.Readlink("/proc/self/ns/net")
		if a.Addr().IsUnspecified() {
			a = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), a.Port())
		}
		return a, theirs != "" && theirs == ours
	}
	return addr, false
}

// askRAS asks the RAS service of one of the processes, which all listen on addr.
func askRAS(ctx context.Context, addr netip.AddrPort, all []*subject) (*ras.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, rasLimit)
	defer cancel()
	var dialer net.Dialer
	for range rasTries {
		conn, err := dialer.DialContext(ctx, "tcp", addr.String())
		if err != nil {
			return nil, err
		}
		end, _ := ctx.Deadline()
		_ = conn.SetDeadline(end)
		stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
		var status *ras.Status
		ours := accepted(ctx, conn, all)
		if ours {
			status, err = ras.Ask(conn)
		}
		stop()
		_ = conn.Close()
		if ours {
			return status, err
		}
	}
	return nil, errElsewhere
}

// accepted waits until a process has accepted the connection, and reports whether it is one of
// those.
func accepted(ctx context.Context, conn net.Conn, all []*subject) bool {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	self, err := process.Open(os.Getpid())
	if err != nil {
		return false
	}
	defer self.Close()
	want := fmt.Sprintf("tcp %v -> %v", conn.RemoteAddr(), conn.LocalAddr())
	is := func(name string) bool { return name == want || strings.HasPrefix(name, want+" ") }
	for ctx.Err() == nil {
		names := socketNames(self)
		maps.DeleteFunc(names, func(_, name string) bool { return !is(name) })
		if len(names) > 0 {
			return slices.ContainsFunc(all, func(s *subject) bool {
				return s.own != nil && len(s.sockets(names, 1)) > 0
			})
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}
