package relay

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"

	"github.com/gorun/gorun/internal/files/space"
	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/net/wire"
)

const (
	minChunk  = 256 << 10
	maxChunks = 4096 // so that sums are a small message
)

// chunkFor returns the size of the chunks of a file.
func chunkFor(size int64) int64 {
	return max(minChunk, (size/maxChunks+minChunk)/minChunk*minChunk)
}

// Source is a file of this machine that is sent.
type Source struct {
	file  *os.File
	size  int64
	chunk int64
	sums  []byte
}

// Open reads a file once, for its sums. Close the source.
func Open(name string) (*Source, error) { return open(name, -1) }

func open(name string, size int64) (*Source, error) {
	file, err := trust.Open(name)
	if errors.Is(err, syscall.EISDIR) {
		err = fmt.Errorf("read %s: %w", name, ErrFolder)
	}
	if err != nil {
		return nil, err
	}
	s, err := newSource(file, size)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", name, err), file.Close())
	}
	return s, nil
}

// ErrFolder means that a source is a folder.
var ErrFolder = errors.New("it is a folder")

// NewSource reads an open file, which the source owns if there is no error.
func NewSource(file *os.File) (*Source, error) { return newSource(file, -1) }

// Pack returns a source of what fill writes to a temporary file of this machine. The file has no
// name, so it ends with the source. The error is a *trust.TemporaryError if the file cannot be
// written.
func Pack(fill func(*os.File) error) (s *Source, err error) {
	file, err := trust.Temporary("gorun-pack-*")
	if err != nil {
		return nil, err
	}
	if err = fill(file); err == nil {
		s, err = NewSource(file)
	}
	if err == nil {
		return s, nil
	}
	if space.Short(err) {
		err = &trust.TemporaryError{Err: space.Explain(err, os.TempDir(), 0)}
	}
	return nil, errors.Join(err, file.Close())
}

// OpenFirst is Open for the first size bytes of a file, which may grow meanwhile.
func OpenFirst(name string, size int64) (*Source, error) { return open(name, size) }

// newSource reads the first size bytes of an open file; -1: all of them.
func newSource(file *os.File, size int64) (*Source, error) {
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, ErrFolder
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	case size < 0:
		size = info.Size()
	case info.Size() < size:
		return nil, errors.New("it has become shorter")
	}
	s := &Source{file: file, size: size, chunk: chunkFor(size)}
	s.sums, err = s.sum()
	return s, err
}

// Size is the file's length.
func (s *Source) Size() int64 { return s.size }

// Sum identifies the content.
func (s *Source) Sum() [sha256.Size]byte { return root(s.size, s.sums) }

// Offer returns an offer of the file for a place, without the secrets of a group.
func (s *Source) Offer(place wire.Place) wire.Offer {
	return wire.Offer{
		Place: place,
		Size:  s.size,
		Chunk: s.chunk,
		Sums:  s.sums,
	}
}

// From returns a reader of the file from an offset on.
func (s *Source) From(at int64) *io.SectionReader { return io.NewSectionReader(s.file, at, s.size-at) }

// Close closes the file.
func (s *Source) Close() error { return s.file.Close() }

// Stat describes the file.
func (s *Source) Stat() (os.FileInfo, error) { return s.file.Stat() }

// sum returns the sums of all chunks. Several are read at a time.
func (s *Source) sum() ([]byte, error) {
	n := chunks(s.size, s.chunk)
	sums := make([]byte, n*sha256.Size)
	errs := make([]error, n)
	var work sync.WaitGroup
	next := make(chan int)
	for range min(n, runtime.GOMAXPROCS(0)) {
		work.Go(func() {
			for i := range next {
				h := sha256.New()
				at := int64(i) * s.chunk
				want := min(s.chunk, s.size-at)
				var got int64
				got, errs[i] = io.Copy(h, io.NewSectionReader(s.file, at, want))
				if errs[i] == nil && got < want {
					errs[i] = io.ErrUnexpectedEOF
				}
				copy(sums[i*sha256.Size:], h.Sum(nil))
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	work.Wait()
	return sums, errors.Join(errs...)
}

// chunks returns the number of a file's chunks.
func chunks(size, chunk int64) int { return int((size + chunk - 1) / chunk) }

// root identifies a file by its size and the sums of its chunks.
func root(size int64, sums []byte) [sha256.Size]byte {
	h := sha256.New()
	fmt.Fprintf(h, "gorun file %d\n", size)
	h.Write(sums)
	return [sha256.Size]byte(h.Sum(nil))
}

// Sum identifies the content of an offered file.
func Sum(o wire.Offer) [sha256.Size]byte { return root(o.Size, o.Sums) }

// checkOffer validates an offer's numbers.
func checkOffer(o wire.Offer) error {
	if o.Member < 0 || o.Member >= maxMembers || len(o.Key) != sha256.Size {
		return &wire.FormatError{Reason: fmt.Sprintf("offer to member %d with a key of %d bytes", o.Member, len(o.Key))}
	}
	return checkSums(o)
}

// checkSums validates the numbers of an offered file.
func checkSums(o wire.Offer) error {
	if o.Size < 0 || o.Chunk < minChunk || o.Size/o.Chunk > 1<<20 ||
		len(o.Sums) != chunks(o.Size, o.Chunk)*sha256.Size {
		return &wire.FormatError{Reason: fmt.Sprintf("offer of %d bytes in chunks of %d with sums of %d bytes", o.Size,
			o.Chunk, len(o.Sums))}
	}
	return nil
}
