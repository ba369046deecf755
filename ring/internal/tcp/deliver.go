package tcp

import "time"

// deliverTimeout bounds Deliver. A rank that reads nothing for so long is stopped, or in a
// long computation; the kernel goes on sending to it after Close, as long as it asks for nothing.
const deliverTimeout = 5 * time.Second

// Deliver returns when the kernel has sent all that was handed to it. Call it before Close,
// unless something has failed: a connection that is closed while anything of the other
// end is unread, such as a note, or that gets one later, is reset, and what it had not
// sent is lost. See RFC 2525, section 2.17.
//
// A rank that does not read holds it up for five seconds at most; one that is gone, or whose
// network is dead, does not.
func (n *Net) Deliver() {
	deadline := time.Now().Add(deliverTimeout)
	var junk [4 << 10]byte
	for _, l := range n.links {
		if l == nil {
			continue
		}
		for i := range l.sockets {
			l.sockets[i].deliver(deadline, junk[:])
		}
	}
}

// deliver waits for one connection. What comes in the meantime is of no use to anyone.
func (s *socket) deliver(deadline time.Time, junk []byte) {
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		for {
			if got, err := recv(s.fd, junk); got == 0 || err != nil {
				break
			}
		}
		if unsent(s.fd) == 0 || silent(s.fd) != nil || time.Now().After(deadline) {
			return
		}
		time.Sleep(pause)
	}
}
