package kv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// The kernel knows who opened the other end of a loopback connection. It is asked through
// netlink (sock_diag(7)), which every user may do; SO_PEERCRED is for Unix sockets only.

// ErrPeerUnknown means that the kernel has no established socket at the other end: it was closed,
// or is not on this machine.
var ErrPeerUnknown = errors.New("nobody on this machine has the other end of the connection open")

const (
	sockDiagByFamily = 20
	netlinkError     = 2
	netlinkHeader    = 16
	diagRequestSize  = netlinkHeader + 56
	diagMessageSize  = 72 // struct inet_diag_msg
	protocolTCP      = 6
	familyIPv4       = 2
	familyIPv6       = 10
	stateEstablished = 1
)

// diagRequest asks for the one TCP socket that is bound to local and connected to remote. It is
// pure.
func diagRequest(local, remote netip.AddrPort) []byte {
	b := binary.NativeEndian.AppendUint32(make([]byte, 0, diagRequestSize), diagRequestSize)
	b = binary.NativeEndian.AppendUint16(b, sockDiagByFamily)
	b = binary.NativeEndian.AppendUint16(b, 1) // NLM_F_REQUEST
	b = append(b, make([]byte, 8)...)          // sequence, port
	family := byte(familyIPv4)
	if local.Addr().Is6() {
		family = familyIPv6
	}
	b = append(b, family, protocolTCP, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, 0xffffffff) // any state
	b = binary.BigEndian.AppendUint16(b, local.Port())
	b = binary.BigEndian.AppendUint16(b, remote.Port())
	for _, addr := range []netip.Addr{local.Addr(), remote.Addr()} {
		raw := addr.AsSlice()
		b = append(b, append(raw, make([]byte, 16-len(raw))...)...)
	}
	b = binary.NativeEndian.AppendUint32(b, 0)                       // any interface
	return append(b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff) // no cookie
}

// parseDiag reads the answer to a diagRequest. It is pure.
func parseDiag(b []byte) (uid uint32, err error) {
	if len(b) < netlinkHeader+4 {
		return 0, errors.New("answer of the kernel cut short")
	}
	switch kind := binary.NativeEndian.Uint16(b[4:]); kind {
	case netlinkError:
		const noEntry = -2
		code := int32(binary.NativeEndian.Uint32(b[netlinkHeader:]))
		if code == noEntry {
			return 0, ErrPeerUnknown
		}
		return 0, fmt.Errorf("the kernel does not say whose a socket is: error %d", -code)
	case sockDiagByFamily:
	default:
		return 0, fmt.Errorf("answer of the kernel of type %d", kind)
	}
	message := b[netlinkHeader:]
	if len(message) < diagMessageSize {
		return 0, errors.New("answer of the kernel cut short")
	}
	state := message[1]
	uid = binary.NativeEndian.Uint32(message[64:])
	inode := binary.NativeEndian.Uint32(message[68:])
	if state != stateEstablished || inode == 0 { // the uid of a closed socket reads as root's
		return 0, ErrPeerUnknown
	}
	return uid, nil
}

// parseTable finds whose the established socket is that is bound to local and connected to remote,
// in the text of /proc/net/tcp or tcp6 (proc_net_tcp(5)). It is pure.
func parseTable(text string, local, remote netip.AddrPort) (uid uint32, found bool) {
	const localField = 1
	const remoteField = 2
	const stateField = 3
	const uidField = 7
	const inodeField = 9
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) <= inodeField || f[inodeField] == "0" || f[stateField] != "01" || !isEntry(f[localField], local) ||
			!isEntry(f[remoteField], remote) {
			continue
		}
		n, err := strconv.ParseUint(f[uidField], 10, 32)
		return uint32(n), err == nil
	}
	return 0, false
}

// isEntry reports whether a table's address is at: hexadecimal words as the processor has them, and
// the port.
func isEntry(entry string, at netip.AddrPort) bool {
	words, port, _ := strings.Cut(entry, ":")
	if n, err := strconv.ParseUint(port, 16, 16); err != nil || uint16(n) != at.Port() || len(words)%8 != 0 {
		return false
	}
	var raw []byte
	for ; words != ""; words = words[8:] {
		n, err := strconv.ParseUint(words[:8], 16, 32)
		if err != nil {
			return false
		}
		raw = binary.NativeEndian.AppendUint32(raw, uint32(n))
	}
	addr, ok := netip.AddrFromSlice(raw)
	return ok && addr.Unmap() == at.Addr()
}
