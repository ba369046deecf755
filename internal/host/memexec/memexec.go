// Package memexec sends an executable through a stream, compressed, and receives it as a file in
// memory that can be run, so that nothing is left on the host's disks.
package memexec

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
)

// MaxSize bounds an executable, compressed and uncompressed, in bytes.
const MaxSize = 32 << 20

// ErrTooLarge reports an executable of MaxSize bytes or more.
var ErrTooLarge = errors.New("it is too large")

// Pack compresses an executable for [Receive].
func Pack(program []byte) ([]byte, error) { return pack(program, MaxSize) }

func pack(program []byte, limit int) ([]byte, error) {
	var packed bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	_, err := zip.Write(program)
	if err = errors.Join(err, zip.Close()); err == nil && max(len(program), packed.Len()) >= limit {
		err = ErrTooLarge
	}
	return packed.Bytes(), err
}

// Receive decompresses an executable into a file in memory, which the caller closes. It returns nil
// if in is empty. name is shown as the name of the file in /proc.
func Receive(name string, in io.Reader) (*os.File, error) { return receive(name, in, MaxSize) }

func receive(name string, in io.Reader, limit int64) (*os.File, error) {
	from := bufio.NewReader(in)
	if _, err := from.Peek(1); errors.Is(err, io.EOF) {
		return nil, nil
	}
	unzip, err := gzip.NewReader(from)
	if err != nil {
		return nil, fmt.Errorf("receive %s: %w", name, err)
	}
	file, err := Create(name)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory for %s: %w", name, err)
	}
	n, err := io.Copy(file, io.LimitReader(unzip, limit))
	if err == nil && n == limit {
		err = ErrTooLarge
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("receive %s: %w", name, err)
	}
	return file, nil
}
