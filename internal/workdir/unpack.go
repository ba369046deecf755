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
)

// unpack puts the files of the launcher's second member into the copy, each when it is whole, and
// keeps their sums in records. old is what the copy held before.
func (c *target) unpack(r io.Reader, entries []Entry, files []want, records, old map[Name]Record) error {
	wanted := make(map[Name]want, len(files))
	for _, w := range files {
		wanted[entries[w.Index].Path] = w
	}
	for archive := tar.NewReader(r); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read what is staged: %w", err)
		}
		w, asked := wanted[Name(header.Name)]
		if !asked || header.Typeflag != tar.TypeReg || header.Size != entries[w.Index].Size {
			return fmt.Errorf("%q was not asked for as it came", header.Name)
		}
		delete(wanted, Name(header.Name))
		e := entries[w.Index]
		sum, err := c.place(archive, e)
		if err != nil {
			return err
		}
		records[e.Path] = Record{Entry: e, Sum: sum}
	}
	// What the launcher has left out has the content that we told it of.
	for p, w := range wanted {
		if w.Sum == nil {
			return fmt.Errorf("%s did not come", p)
		}
		if err := c.touch(entries[w.Index], old[p]); err != nil {
			return err
		}
		records[p] = Record{Entry: entries[w.Index], Sum: w.Sum}
	}
	// The rest of the member: its checksum.
	_, err := io.Copy(io.Discard, r)
	return err
}

// place writes a file beside the copy and moves it to its place.
func (c *target) place(r io.Reader, e Entry) (sum []byte, err error) {
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

// member reads the gzip members of a stream one by one.
type member struct {
	from *bufio.Reader
	zip  *gzip.Reader
}

// next returns a reader of the next member alone.
func (m *member) next() (io.Reader, error) {
	var err error
	if m.zip == nil {
		m.zip, err = gzip.NewReader(m.from)
	} else {
		err = m.zip.Reset(m.from)
	}
	if err != nil {
		return nil, err
	}
	m.zip.Multistream(false)
	return m.zip, nil
}
