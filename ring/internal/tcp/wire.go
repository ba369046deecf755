package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"os"
)

const (
	// recordHead is the length of a record, the CRC32C of all that was said on this side of
	// the connection up to there, and the same up to the record's end. A length that
	// changed on its way is found at once: nobody waits for bytes that do not come.
	recordHead = 12
	// wireRoom is how many bytes one system call receives.
	wireRoom = 4 * chunk
)

// wire carries records that are checked for accidents on their way. Once it is detached it
// never waits: what is written stays in out, and what is read comes from in.
type wire struct {
	*net.TCPConn
	detached bool

	table      *crc32.Table
	said, came uint32 // CRC of all so far
	in, out    []byte
	begin, end int // of what has come in
	verified   int // bytes at its start
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
		w.said = crc32.Update(w.said, w.table, record[:4])
		binary.BigEndian.PutUint32(record[4:], w.said)
		w.said = crc32.Update(w.said, w.table, record[recordHead:])
		binary.BigEndian.PutUint32(record[8:], w.said)
		rest = rest[n:]
	}
	if w.detached {
		return len(b), nil
	}
	_, err := w.TCPConn.Write(w.out)
	w.out = w.out[:0]
	return len(b), err
}

// Read fails with os.ErrDeadlineExceeded when more must come, after which package tls
// goes on.
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

// verify checks the next record, once all of it is there.
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
	w.came, w.verified = sum, n
	w.begin += recordHead
	return nil
}

// room is where bytes go that come next. There is always some: all of a record fits.
func (w *wire) room() []byte {
	if w.in == nil {
		w.in = make([]byte, wireRoom)
	}
	w.end = copy(w.in, w.in[w.begin:w.end])
	w.begin = 0
	return w.in[w.end:]
}

// fill takes what has come. 0 bytes are the end.
func (w *wire) fill(fd int) (int, error) {
	n, err := recv(fd, w.room())
	if err == nil {
		w.end += n
	}
	return n, err
}
