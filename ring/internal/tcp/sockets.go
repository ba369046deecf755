package tcp

import (
	"net"
	"syscall"
)

// Sockets hears of each socket that a Net holds: when it has one, and before it closes it. A
// child that was forked from this process holds it too, and while it does the other
// ranks are not told of the end: who may be forked closes them in the child.
type Sockets func(fd int, open bool)

// tell says nothing of a socket that is closed already, as its number may be another's by now.
func (s Sockets) tell(c syscall.Conn, open bool) {
	if s == nil {
		return
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { s(int(fd), open) }) // it fails for what is closed
}

// listener is one of a Net's doors.
type listener struct {
	*net.TCPListener
	sockets Sockets
}

func (l *listener) Close() error {
	l.sockets.tell(l.TCPListener, false)
	return l.TCPListener.Close()
}
