package workdir

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
)

// unpack moves each file of a pack into the copy when it is complete, and its sum into records. old
// is what the copy held before.
func (c *target) unpack(pack io.Reader, entries []Entry, files []wire.WantedFile, records, old map[Name]Record) error {
	r, err := gzip.NewReader(bufio.NewReaderSize(pack, 64<<10))
	if err != nil {
		return fmt.Errorf("read the staged files: %w", err)
	}
	wanted := make(map[Name]wire.WantedFile, len(files))
	for _, w := range files {
		wanted[entries[w.Index].Path] = w
	}
	for archive := tar.NewReader(r); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the staged files: %w", err)
		}
		w, asked := wanted[Name(header.Name)]
		if !asked || header.Typeflag != tar.TypeReg || header.Size != entries[w.Index].Size {
			return fmt.Errorf("%q is not a wanted file of that size", header.Name)
		}
		delete(wanted, Name(header.Name))
		e := entries[w.Index]
		sum, err := c.write(archive, e)
		if err != nil {
			return err
		}
		records[e.Path] = Record{Entry: e, Sum: sum}
	}
	// The launcher leaves out files whose sum in the want is right.
	for p, w := range wanted {
		if w.Sum == nil {
			return fmt.Errorf("%s was wanted and did not come", p)
		}
		if err := c.touch(entries[w.Index], old[p]); err != nil {
			return err
		}
		records[p] = Record{Entry: entries[w.Index], Sum: w.Sum}
	}
	_, err = io.Copy(io.Discard, r) // verifies the checksum
	return err
}

// write writes a file beside the copy and moves it into the copy.
func (c *target) write(r io.Reader, e Entry) (sum []byte, err error) {
	if err := c.makeRoom(e); err != nil {
		return nil, err
	}
	temp := c.fresh("file")
	f, err := c.base.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, h), r)
	if err = errors.Join(err, f.Chmod(e.Mode), f.Close()); err != nil {
		return nil, err
	}
	if err := c.base.Chtimes(temp, timeOf(e), timeOf(e)); err != nil {
		return nil, err
	}
	return h.Sum(nil), c.base.Rename(temp, c.path(string(e.Path)))
}

func timeOf(e Entry) time.Time { return time.Unix(0, e.Mtime) }

// Pieces reads the bytes of successive folder frames.
type Pieces struct {
	Next func() (wire.Frame, error)
	rest []byte // unread bytes of the current frame
}

// fill waits until there are unread bytes.
func (p *Pieces) fill() error {
	for len(p.rest) == 0 {
		f, err := p.Next()
		if err != nil {
			return err
		}
		if f.Type != wire.TypeFolder {
			return &wire.FormatError{Reason: fmt.Sprintf("%s came where %s was due", f.Type, wire.TypeFolder)}
		}
		p.rest = f.Payload
	}
	return nil
}

// Read waits until there are bytes.
func (p *Pieces) Read(b []byte) (int, error) {
	if err := p.fill(); err != nil {
		return 0, err
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}
