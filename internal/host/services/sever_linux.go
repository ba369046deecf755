package services

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/host/process"
)

// severTime bounds the search for connections.
const severTime = 2 * time.Second

// sever shuts down the TCP connections of processes that have one of the addresses at either end,
// as if the network had ended them, and returns their number. Where the kernel keeps a process's
// sockets from others (before Linux 5.6, or with Yama) it finds none, and it opens none of another
// user's process.
func sever(pids []int, addrs map[netip.AddrPort]bool) (severed int) {
	ctx, cancel := context.WithTimeout(context.Background(), severTime)
	defer cancel()
	for _, pid := range pids {
		severed += severProcess(ctx, pid, addrs)
	}
	return severed
}

func severProcess(ctx context.Context, pid int, addrs map[netip.AddrPort]bool) (severed int) {
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(handle)
	p, err := process.Open(pid) // after the handle, so that both are of one process
	if err != nil {
		return 0
	}
	defer p.Close()
	for _, name := range p.Names("fd") {
		if ctx.Err() != nil {
			return severed
		}
		number, err := strconv.Atoi(name)
		if err != nil || !strings.HasPrefix(p.Link("fd/"+name), "socket:") {
			continue
		}
		fd, err := unix.PidfdGetfd(handle, number, 0)
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
			return severed
		}
		if err != nil {
			// The process has closed it since.
			continue
		}
		if local, remote, is := endsOf(fd); is && (addrs[local] || addrs[remote]) &&
			unix.Shutdown(fd, unix.SHUT_RDWR) == nil {
			severed++
		}
		unix.Close(fd)
	}
	return severed
}

// endsOf returns the ends of a socket; is reports whether it is a TCP connection.
func endsOf(fd int) (local, remote netip.AddrPort, is bool) {
	if protocol, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL); err != nil ||
		protocol != unix.IPPROTO_TCP {
		return local, remote, false
	}
	here, err := unix.Getsockname(fd)
	if err != nil {
		return local, remote, false
	}
	there, err := unix.Getpeername(fd)
	if err != nil {
		return local, remote, false
	}
	local = addrPortOf(here)
	remote = addrPortOf(there)
	return local, remote, local.IsValid() && remote.IsValid()
}

// addrPortOf converts addr; the result is invalid for anything but an IP address.
func addrPortOf(addr unix.Sockaddr) netip.AddrPort {
	switch addr := addr.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(addr.Addr), uint16(addr.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(addr.Addr).Unmap(), uint16(addr.Port))
	}
	return netip.AddrPort{}
}
