package secure

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"os"
)

const (
	// A record starts with its length, the CRC32C of everything sent in this direction so
	// far including the length, and the same up to the record's end. So a corrupt length
	// is an error before the receiver waits for that many bytes.
	recordHead = 12
	// wireRoom is the size of the receive buffer in bytes.
	wireRoom = 4 * chunk
)

// wire carries records with checksums, which detect accidental changes. Once detached it
// does no I/O: Write appends to out, and Read consumes in.
type wire struct {
	*net.TCPConn
	detached bool

	table      *crc32.Table
	sent, came uint32 // running CRCs
	in, out    []byte
	begin, end int // bounds of the unread bytes in in
	verified   int // verified bytes among the unread ones
	failed     error
}

func newWire(conn *net.TCPConn) *wire {
	return &wire{TCPConn: conn, table: crc32.MakeTable(crc32.Castagnoli)}
}

func (w *wire) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := min(len(rest), chunk)
		at := len(w.out)
		w.out = append(w.out, make([]byte, recordHead)...)
		w.out = append(w.out, rest[:n]...)
		record := w.out[at:]
		binary.BigEndian.PutUint32(record, uint32(n))
		w.sent = crc32.Update(w.sent, w.table, record[:4])
		binary.BigEndian.PutUint32(record[4:], w.sent)
		w.sent = crc32.Update(w.sent, w.table, record[recordHead:])
		binary.BigEndian.PutUint32(record[8:], w.sent)
		rest = rest[n:]
	}
	if w.detached {
		return len(b), nil
	}
	_, err := w.TCPConn.Write(w.out)
	w.out = w.out[:0]
	return len(b), err
}

// Read fails with os.ErrDeadlineExceeded if it needs more bytes: package tls can continue
// after that error.
func (w *wire) Read(b []byte) (int, error) {
	for w.verified == 0 {
		err := w.verify()
		if err == nil {
			break
		}
		if w.detached || !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, err
		}
		n, err := w.TCPConn.Read(w.room())
		w.end += n
		if err != nil {
			return 0, err
		}
	}
	n := copy(b[:min(len(b), w.verified)], w.in[w.begin:])
	w.begin += n
	w.verified -= n
	return n, nil
}

// verify checks the next record if it is complete.
func (w *wire) verify() error {
	if w.failed != nil {
		return w.failed
	}
	record := w.in[w.begin:w.end]
	if len(record) < recordHead {
		return os.ErrDeadlineExceeded
	}
	n := int(binary.BigEndian.Uint32(record))
	sum := crc32.Update(w.came, w.table, record[:4])
	if sum != binary.BigEndian.Uint32(record[4:]) || n < 1 || n > chunk {
		w.failed = fmt.Errorf("wrong CRC32C of a record's length, %d", n)
		return w.failed
	}
	if len(record) < recordHead+n {
		return os.ErrDeadlineExceeded
	}
	sum = crc32.Update(sum, w.table, record[recordHead:recordHead+n])
	if sum != binary.BigEndian.Uint32(record[8:]) {
		w.failed = errors.New("wrong CRC32C")
		return w.failed
	}
	w.came = sum
	w.verified = n
	w.begin += recordHead
	return nil
}

// room returns free space for received bytes, never empty: the buffer exceeds a record.
func (w *wire) room() []byte {
	if w.in == nil {
		w.in = make([]byte, wireRoom)
	}
	w.end = copy(w.in, w.in[w.begin:w.end])
	w.begin = 0
	return w.in[w.end:]
}

// fill receives available bytes. 0 bytes are the end.
func (w *wire) fill(fd int) (int, error) {
	n, err := recv(fd, w.room())
	if err == nil {
		w.end += n
	}
	return n, err
}
