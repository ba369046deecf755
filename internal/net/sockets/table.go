// Package sockets reads from the kernel which TCP sockets a machine has: through netlink, as
// sock_diag(7) describes it, and from the tables of proc_net_tcp(5).
package sockets

import (
	"encoding/binary"
	"encoding/hex"
	"iter"
	"net/netip"
	"strconv"
	"strings"
)

// State is the state of a TCP socket, a constant of include/net/tcp_states.h.
type State byte

// The states that gorun looks for.
const (
	Established State = 1
	TimeWait    State = 6
	Listen      State = 10
)

// Socket is the kernel's description of a TCP socket.
type Socket struct {
	State  State
	UID    uint32 // user ID; 0 also for a closed socket
	Inode  uint32 // inode; 0: no process holds the socket
	cookie [8]byte
	info   []byte // struct tcp_info, if requested

	// The ends and the lengths of both queues are known from tables only.
	Local, Remote netip.AddrPort
	Queues        string
}

// Table returns the sockets in the text of /proc/net/tcp or tcp6. It skips lines that it cannot
// parse.
func Table(text string) iter.Seq[Socket] {
	return func(yield func(Socket) bool) {
		for line := range strings.Lines(text) {
			if s, is := parseLine(strings.Fields(line)); is && !yield(s) {
				return
			}
		}
	}
}

func parseLine(fields []string) (s Socket, is bool) {
	const inodeField = 9
	if len(fields) <= inodeField {
		return s, false
	}
	local, is1 := parseAddress(fields[1])
	remote, is2 := parseAddress(fields[2])
	state, err1 := strconv.ParseUint(fields[3], 16, 8)
	uid, err2 := strconv.ParseUint(fields[7], 10, 32)
	inode, err3 := strconv.ParseUint(fields[inodeField], 10, 32)
	return Socket{
		State:  State(state),
		UID:    uint32(uid),
		Inode:  uint32(inode),
		Local:  local,
		Remote: remote,
		Queues: fields[4],
	}, is1 && is2 && err1 == nil && err2 == nil && err3 == nil
}

// parseAddress parses words in the machine's order, as hexadecimal digits, and a port.
func parseAddress(text string) (at netip.AddrPort, is bool) {
	words, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(words)
	if err != nil || len(raw)%4 != 0 {
		return at, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	addr, is := netip.AddrFromSlice(raw)
	number, err := strconv.ParseUint(port, 16, 16)
	return netip.AddrPortFrom(addr.Unmap(), uint16(number)), is && err == nil
}
