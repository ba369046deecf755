//go:build !linux

package secure

import "golang.org/x/sys/unix"

// Outbox holds what one system call sends.
type Outbox struct {
	pieces [maxPieces][]byte
	count  int
}

// Add appends b, which must not be empty. The outbox must not be full.
func (o *Outbox) Add(b []byte) {
	o.pieces[o.count] = b
	o.count++
}

// Piece returns the bytes that were added as number i, of Len.
func (o *Outbox) Piece(i int) []byte { return o.pieces[i] }

// Clear drops all pieces and their memory.
func (o *Outbox) Clear() {
	clear(o.pieces[:o.count])
	o.count = 0
}

func (o *Outbox) send(fd int) (int, error) {
	for {
		n, err := unix.SendmsgBuffers(fd, o.pieces[:o.count], nil, nil, unix.MSG_DONTWAIT)
		if err != unix.EINTR {
			return n, err
		}
	}
}

func recv(fd int, b []byte) (int, error) {
	for {
		n, _, err := unix.Recvfrom(fd, b, unix.MSG_DONTWAIT)
		if err != unix.EINTR {
			return n, err
		}
	}
}
