package lab

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Garble flips bits at random in a percentage (1 to 100) of the TCP segments that reach a host, and
// leaves their checksums wrong by one bit, as a bad cable does: the host's kernel has to detect
// them.
func (c *Cluster) Garble(ctx context.Context, host string, percent int) error {
	if err := c.checksums(host, true); err != nil {
		return err
	}
	return c.inNet(ctx, c.Host(host), fmt.Sprintf("nft add table inet garble && nft add chain inet garble in '{ type "+
		"filter hook prerouting priority -300; }' && "+
		"nft add rule inet garble in meta l4proto tcp numgen random mod 100 '<=' %d @th,256,16 set @th,256,16 ^ "+
		"0x0101 tcp checksum set tcp checksum ^ 1 counter", percent-1))
}

// Ungarble undoes Garble.
func (c *Cluster) Ungarble(ctx context.Context, host string) error {
	if err := c.inNet(ctx, c.Host(host), "nft delete table inet garble"); err != nil {
		return err
	}
	return c.checksums(host, false)
}

// checksums makes senders compute checksums and the host's kernel verify them; virtual device pairs
// do neither by default.
func (c *Cluster) checksums(host string, real bool) error {
	h := c.Host(host)
	if err := offload(c.launch, h.link(c), unix.ETHTOOL_STXCSUM, !real); err != nil {
		return err
	}
	return offload(h, "eth0", unix.ETHTOOL_SRXCSUM, !real)
}

// offload sets whether a device of a host's network does part of the checksum work instead of the
// kernel.
func offload(h *Host, device string, part uint32, on bool) error {
	if err := inNetOf(h, func() error { return tellDevice(device, part, on) }); err != nil {
		return fmt.Errorf("checksums of %s at %s: %w", device, h.Name, err)
	}
	return nil
}

// inNetOf runs act on a thread in the host's network. A thread that cannot return is not used
// again.
func inNetOf(h *Host, act func() error) error {
	runtime.LockOSThread()
	own, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer unix.Close(own)
	network, err := unix.Open("/proc/"+strconv.Itoa(h.holder)+"/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer unix.Close(network)
	if err = unix.Setns(network, unix.CLONE_NEWNET); err == nil {
		err = act()
	}
	back := unix.Setns(own, unix.CLONE_NEWNET)
	if back == nil {
		runtime.UnlockOSThread()
	}
	return errors.Join(err, back)
}

func tellDevice(device string, part uint32, on bool) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	value := struct{ part, on uint32 }{part: part}
	if on {
		value.on = 1
	}
	var request struct {
		name  [unix.IFNAMSIZ]byte
		value unsafe.Pointer
		_     [16]byte
	}
	copy(request.name[:unix.IFNAMSIZ-1], device)
	request.value = unsafe.Pointer(&value)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCETHTOOL,
		uintptr(unsafe.Pointer(&request))); errno != 0 {
		return errno
	}
	return nil
}
