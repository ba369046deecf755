package seat

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	diagByFamily = 20 // SOCK_DIAG_BY_FAMILY
	diagSize     = 72 // of struct inet_diag_msg
	stateListen  = 10 // TCP_LISTEN
)

// Listeners returns the users of the sockets that listen on a TCP port of this host, each as often
// as it has such sockets.
func Listeners(port int) (uids []uint32, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return nil, fmt.Errorf("ask the kernel who listens on port %d: %w", port, err)
	}
	defer unix.Close(fd)
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		if err := unix.Sendto(fd, listenersRequest(family, port), 0,
			&unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return nil, fmt.Errorf("ask the kernel who listens on port %d: %w", port, err)
		}
		for more := true; more; {
			answer := make([]byte, 32<<10)
			n, _, err := unix.Recvfrom(fd, answer, 0)
			if err != nil {
				return nil, fmt.Errorf("ask the kernel who listens on port %d: %w", port, err)
			}
			var found []uint32
			if found, more, err = parseListeners(answer[:n]); err != nil {
				return nil, fmt.Errorf("ask the kernel who listens on port %d: %w", port, err)
			}
			uids = append(uids, found...)
		}
	}
	return uids, nil
}

// listenersRequest is a struct nlmsghdr and a struct inet_diag_req_v2 for all sockets that listen
// on a port.
func listenersRequest(family byte, port int) []byte {
	order := binary.NativeEndian
	b := order.AppendUint32(nil, unix.SizeofNlMsghdr+56)
	b = order.AppendUint16(b, diagByFamily)
	b = order.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	b = append(b, make([]byte, 8)...) // sequence and port
	b = append(b, family, unix.IPPROTO_TCP, 0, 0)
	b = order.AppendUint32(b, 1<<stateListen)
	b = binary.BigEndian.AppendUint16(b, uint16(port))
	return append(b, make([]byte, 2+16+16+4+8)...) // any other end, interface and cookie
}

// parseListeners reads a part of the answer to a listenersRequest: the users of sockets, and
// whether another part follows. It is pure.
func parseListeners(b []byte) (uids []uint32, more bool, err error) {
	order := binary.NativeEndian
	for len(b) >= unix.SizeofNlMsghdr {
		size := int(order.Uint32(b))
		kind := order.Uint16(b[4:])
		if size < unix.SizeofNlMsghdr || size > len(b) {
			break
		}
		message := b[unix.SizeofNlMsghdr:size]
		switch {
		case kind == unix.NLMSG_DONE:
			return uids, false, nil
		case kind == unix.NLMSG_ERROR && len(message) >= 4:
			return nil, false, unix.Errno(-int32(order.Uint32(message)))
		case kind == diagByFamily && len(message) >= diagSize:
			uids = append(uids, order.Uint32(message[64:]))
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	if len(b) > 0 {
		return nil, false, errors.New("the answer is cut short")
	}
	return uids, true, nil
}
