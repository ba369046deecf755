package link

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"

	"golang.org/x/sys/unix"
)

// openTAP makes a TAP in a network namespace, with an address and up. It ends with its file
// descriptor.
func openTAP(namespace, name string, addr netip.Prefix) (fd int, err error) {
	made := make(chan struct{})
	go func() {
		defer close(made)
		runtime.LockOSThread()
		// the main thread never ends, and its namespace counts as that of the process
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			fd, err = openTAP(namespace, name, addr) // on another thread, since this one is taken
			return
		}
		// The thread stays locked: it ends, and with it its namespace.
		fd, err = openTAPHere(namespace, name, addr)
	}()
	<-made
	return fd, err
}

// openTAPHere moves the calling thread into the namespace.
func openTAPHere(namespace, name string, addr netip.Prefix) (fd int, err error) {
	ns, err := unix.Open(namespace, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(ns)
	if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
		return -1, fmt.Errorf("entering it: %w", err)
	}
	if fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
		return -1, fmt.Errorf("opening /dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err == nil {
		err = setUp(name, addr)
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// setUp gives an interface of this thread's namespace an address, and starts it.
func setUp(name string, addr netip.Prefix) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for _, set := range []struct {
		what uint
		addr []byte
	}{{unix.SIOCSIFADDR, addr.Addr().AsSlice()}, {unix.SIOCSIFNETMASK, net.CIDRMask(addr.Bits(), 32)}} {
		request, err := unix.NewIfreq(name)
		if err == nil {
			err = request.SetInet4Addr(set.addr)
		}
		if err == nil {
			err = unix.IoctlIfreq(fd, set.what, request)
		}
		if err != nil {
			return fmt.Errorf("setting address %s: %w", addr, err)
		}
	}
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// tune lets large segments pass whole where no frame is lost: a lost one would take many packets
// with it.
func (n *Network) tune() error {
	features := unix.TUN_F_CSUM
	if !n.lossy() {
		features |= unix.TUN_F_TSO4 | unix.TUN_F_TSO6
	}
	for _, p := range n.ports {
		if err := unix.IoctlSetInt(p.fd, unix.TUNSETOFFLOAD, features); err != nil && err != unix.EBADFD {
			return fmt.Errorf("setting what a TAP does itself: %w", err)
		}
	}
	return nil
}

// write hands the host a frame.
func (p *Port) write(data []byte) error {
	_, err := unix.Write(p.fd, data)
	return err
}

// release closes what the network has open. Its carrier must have returned.
func (n *Network) release() error {
	errs := []error{unix.Close(n.bell)}
	for _, p := range n.ports {
		errs = append(errs, unix.Close(p.fd))
	}
	return errors.Join(errs...)
}
