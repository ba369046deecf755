package relay

import (
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"os"
	"sync"

	"github.com/gorun/gorun/internal/net/wire"
)

// errOther reports bytes that are not the file's.
var errOther = errors.New("sent other bytes than the file's")

// blob is a file that comes from its beginning to its end. Readers read what is verified. One
// goroutine writes at a time.
type blob struct {
	file *os.File
	size int64
	step int64 // chunk size in bytes
	sums []byte

	written int64 // bytes that the writer has written
	sum     hash.Hash

	mu    sync.Mutex
	valid int64         // verified bytes, from the beginning
	grown chan struct{} // closed when valid grows
}

// newBlob returns the blob of an offer in a file, of which it keeps what is right.
func newBlob(file *os.File, o wire.Offer) (*blob, error) {
	b := &blob{
		file:  file,
		size:  o.Size,
		step:  o.Chunk,
		sums:  o.Sums,
		sum:   sha256.New(),
		grown: make(chan struct{}),
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	buffer := make([]byte, copySize)
	for b.written < min(b.size, info.Size()) {
		n, err := file.ReadAt(buffer[:min(int64(len(buffer)), b.size-b.written)], b.written)
		if n > 0 {
			err = b.take(buffer[:n], false)
		}
		if err != nil {
			break
		}
	}
	b.rewind()
	return b, file.Truncate(b.valid)
}

// rewind forgets what was written since the last whole chunk. The caller writes.
func (b *blob) rewind() {
	b.written = b.have()
	b.sum.Reset()
}

// Write adds bytes. After errOther it has forgotten those of the chunk.
func (b *blob) Write(p []byte) (int, error) {
	if err := b.take(p, true); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (b *blob) take(p []byte, store bool) error {
	if b.written+int64(len(p)) > b.size {
		b.rewind()
		return errOther
	}
	for len(p) > 0 {
		end := min((b.written/b.step+1)*b.step, b.size)
		piece := p[:min(int64(len(p)), end-b.written)]
		p = p[len(piece):]
		if store {
			if _, err := b.file.WriteAt(piece, b.written); err != nil {
				return err
			}
		}
		b.sum.Write(piece)
		if b.written += int64(len(piece)); b.written < end {
			continue
		}
		i := (end - 1) / b.step * sha256.Size
		right := string(b.sum.Sum(nil)) == string(b.sums[i:i+sha256.Size])
		b.sum.Reset()
		if !right {
			b.rewind()
			return errOther
		}
		b.grow(end)
	}
	return nil
}

func (b *blob) grow(valid int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.valid = valid
	close(b.grown)
	b.grown = make(chan struct{})
}

func (b *blob) have() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.valid
}

// after returns how much is verified, and a channel that is closed when there is more.
func (b *blob) after() (int64, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.valid, b.grown
}

// ReadAt reads verified bytes.
func (b *blob) ReadAt(p []byte, at int64) (int, error) {
	valid := b.have()
	if at >= valid {
		return 0, io.EOF
	}
	return b.file.ReadAt(p[:min(int64(len(p)), valid-at)], at)
}
