package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
)

// idxLimit bounds the data of one file. MNIST itself has 47 MB.
const idxLimit = 4 << 30

// idxError says what is wrong with an IDX file, and where. Offset counts bytes after
// decompression.
type idxError struct {
	file   string
	offset int64
	err    error
}

func (e *idxError) Error() string { return fmt.Sprintf("%s: offset %d: %v", e.file, e.offset, e.err) }
func (e *idxError) Unwrap() error { return e.err }

// readIDX reads unsigned bytes with the given number of dimensions, plain or
// gzipped. File is for error messages.
//
// The format is that of MNIST: two zero bytes, the element type, the number of
// dimensions, the size of each in 4 bytes, most significant first, and the elements.
func readIDX(file string, r io.Reader, dimensions int) (sizes []int, data []byte, err error) {
	fail := func(offset int64, format string, args ...any) ([]int, []byte, error) {
		return nil, nil, &idxError{file, offset, fmt.Errorf(format, args...)}
	}
	plain, err := unzip(r)
	if err != nil {
		return fail(0, "%w", err)
	}
	header := make([]byte, 4+4*dimensions)
	if n, err := io.ReadFull(plain, header); err != nil {
		return fail(int64(n), "in the header of %d bytes: %w", len(header), err)
	}
	if want := []byte{0, 0, 8, byte(dimensions)}; !bytes.Equal(header[:4], want) {
		return fail(0, "magic number is %x, want %x", header[:4], want)
	}
	total := int64(1)
	for i := range dimensions {
		size := int64(binary.BigEndian.Uint32(header[4+4*i:]))
		if size == 0 || size > idxLimit/total {
			return fail(int64(4+4*i), "dimension %d is %d", i, size)
		}
		total *= size
		sizes = append(sizes, int(size))
	}
	// The buffer grows with what is there, not with what the header claims.
	var body bytes.Buffer
	start := int64(len(header))
	n, err := io.Copy(&body, io.LimitReader(plain, total+1))
	switch {
	case err != nil:
		return fail(start+n, "after %d of %d bytes of data: %w", n, total, err)
	case n < total:
		return fail(start+n, "ends after %d of %d bytes of data", n, total)
	case n > total:
		return fail(start+total, "more data than the header says")
	}
	return sizes, body.Bytes(), nil
}

// unzip looks whether r is gzipped.
func unzip(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	if start, _ := b.Peek(2); bytes.Equal(start, []byte{0x1f, 0x8b}) {
		return gzip.NewReader(b)
	}
	return b, nil
}
