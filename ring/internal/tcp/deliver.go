package tcp

import "time"

// deliverTimeout bounds Deliver for ranks that do not read. After Close the kernel still
// sends to such a rank, unless that rank has sent a note.
const deliverTimeout = 5 * time.Second

// Deliver returns when the kernel has sent all data, but at most five seconds later for
// ranks that do not read, and at once for ranks that exited or whose network is dead. Call
// it before Close unless something failed: closing a connection with unread input, such as
// a note, resets it and loses unsent data. See RFC 2525, section 2.17.
func (n *Net) Deliver() {
	deadline := time.Now().Add(deliverTimeout)
	var junk [4 << 10]byte
	for _, l := range n.links {
		if l == nil {
			continue
		}
		for _, c := range l.conns {
			deliver(c, deadline, junk[:])
		}
	}
}

// deliver waits for one connection. It discards received bytes, so that the kernel does
// not reset the connection because of them.
func deliver(c conn, deadline time.Time, junk []byte) {
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		c.Discard(junk)
		if c.Unsent() == 0 || c.Silent() != nil || time.Now().After(deadline) {
			return
		}
		time.Sleep(pause)
	}
}
