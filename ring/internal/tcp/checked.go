package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
)

// checkedHead is the head of a record: its length, and the CRC32C of all that was
// said on this side of the connection, up to the record's end.
const checkedHead = 8

// checked is the layer that finds what changed on its way by accident.
type checked struct {
	wire     *wire
	table    *crc32.Table
	out, in  uint32 // CRC of all so far
	verified int    // bytes at the start of what has come in
	failed   error
}

func newChecked(w *wire) *checked {
	return &checked{wire: w, table: crc32.MakeTable(crc32.Castagnoli)}
}

func (c *checked) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := min(len(rest), chunk)
		at := len(c.wire.out)
		c.wire.out = append(c.wire.out, make([]byte, checkedHead)...)
		c.wire.out = append(c.wire.out, rest[:n]...)
		record := c.wire.out[at:]
		binary.BigEndian.PutUint32(record, uint32(n))
		c.out = crc32.Update(crc32.Update(c.out, c.table, record[:4]), c.table, record[checkedHead:])
		binary.BigEndian.PutUint32(record[4:], c.out)
		rest = rest[n:]
	}
	return len(b), nil
}

func (c *checked) Read(b []byte) (int, error) {
	if c.verified == 0 {
		if err := c.verify(); err != nil {
			return 0, err
		}
	}
	n := copy(b[:min(len(b), c.verified)], c.wire.in[c.wire.begin:])
	c.wire.begin += n
	c.verified -= n
	return n, nil
}

// verify checks the next record, once all of it is there. Its length is as little
// to be trusted as its bytes.
func (c *checked) verify() error {
	w := c.wire
	came := w.in[w.begin:w.end]
	if c.failed != nil || len(came) < checkedHead {
		return orWait(c.failed)
	}
	n := int(binary.BigEndian.Uint32(came))
	if n < 1 || n > chunk {
		c.failed = fmt.Errorf("a record of %d bytes", n)
		return c.failed
	}
	if len(came) < checkedHead+n {
		return orWait(nil)
	}
	c.in = crc32.Update(crc32.Update(c.in, c.table, came[:4]), c.table, came[checkedHead:checkedHead+n])
	if c.in != binary.BigEndian.Uint32(came[4:]) {
		c.failed = errors.New("wrong CRC32C")
		return c.failed
	}
	w.begin += checkedHead
	c.verified = n
	return nil
}

// orWait is err, or that more must come.
func orWait(err error) error {
	if err == nil {
		return os.ErrDeadlineExceeded
	}
	return err
}
