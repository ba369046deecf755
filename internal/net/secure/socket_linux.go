package secure

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Outbox holds what one system call sends. It never allocates.
type Outbox struct {
	header unix.Msghdr
	pieces [maxPieces]unix.Iovec
	count  int
}

// Add appends b, which must not be empty. The outbox must not be full.
func (o *Outbox) Add(b []byte) {
	o.pieces[o.count].Base = &b[0]
	o.pieces[o.count].SetLen(len(b))
	o.count++
}

// Piece returns the bytes that were added as number i, of Len.
func (o *Outbox) Piece(i int) []byte { return unsafe.Slice(o.pieces[i].Base, o.pieces[i].Len) }

// Clear drops all pieces and their memory.
func (o *Outbox) Clear() {
	for i := range o.pieces[:o.count] {
		o.pieces[i].Base = nil
	}
	o.count = 0
}

// send hands to the kernel what it accepts at once.
func (o *Outbox) send(fd int) (int, error) {
	o.header.Iov = &o.pieces[0]
	o.header.SetIovlen(o.count)
	for {
		n, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&o.header)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// recv receives available bytes, or fails with EAGAIN. 0 bytes are the end.
func recv(fd int, b []byte) (int, error) {
	for {
		n, _, errno := unix.Syscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
			unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}
