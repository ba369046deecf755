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

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/wire"
)

// pack writes a tar of the wanted files, compressed, without those of which only the time differs.
// It returns how many it wrote and their bytes.
func (t *Tree) pack(w io.Writer, files []wire.WantedFile) (n int, bytes int64, err error) {
	out := bufio.NewWriterSize(w, 64<<10) // gzip writes little at a time
	zip, _ := gzip.NewWriterLevel(out, gzip.BestSpeed)
	archive := tar.NewWriter(zip)
	for _, f := range files {
		e := t.Entries[f.Index]
		if f.Sum != nil {
			sum, err := t.sum(e)
			if err != nil {
				return n, bytes, err
			}
			if string(sum) == string(f.Sum) {
				continue
			}
		}
		if err := t.packFile(archive, e); err != nil {
			return n, bytes, err
		}
		n++
		bytes += e.Size
	}
	return n, bytes, errors.Join(archive.Close(), zip.Close(), out.Flush())
}

func (t *Tree) packFile(archive *tar.Writer, e Entry) error {
	f, err := t.open(e)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := archive.WriteHeader(&tar.Header{Name: string(e.Path), Size: e.Size, Typeflag: tar.TypeReg}); err != nil {
		return fmt.Errorf("pack %s: %w", f.Name(), err)
	}
	switch n, err := io.Copy(archive, io.LimitReader(f, e.Size)); {
	case err != nil:
		return err
	case n < e.Size:
		return fmt.Errorf("%s became shorter while it was staged", f.Name())
	}
	return nil
}

// sum returns the SHA-256 of a file as it is now.
func (t *Tree) sum(e Entry) ([]byte, error) {
	f, err := t.open(e)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}

// open opens a file of the folder. It fails if the file has become something else since the scan.
func (t *Tree) open(e Entry) (*os.File, error) {
	f, err := openBelow(t.folder, string(e.Path), unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("%s was a file when it was scanned, and is no file now", f.Name())
	}
	return f, nil
}
