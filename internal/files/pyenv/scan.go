// Package pyenv packs a Python environment, a virtual environment or a conda prefix, and unpacks it
// on another host at another path, in a cache of bounded size. The package comment of relay says
// how the pack gets there.
package pyenv

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gorun/gorun/internal/files/trust"
)

const (
	// prefixFile is the first file of a pack. It has the path of the environment on the machine
	// where it was packed.
	prefixFile = ".gorun-prefix"
	maxFiles   = 1_000_000
	maxNames   = 16 * maxFiles // names in the paths of all files, for each of which a host opens a folder
)

// Env is an environment of this machine, as it was when [Scan] read it.
type Env struct {
	Dir   string // absolute path
	Key   string // hash of the environment's files and path
	Conda bool   // whether it is a conda prefix instead of a virtual environment
	Files int
	Bytes int64
}

// NoEnvError reports a folder that is no environment.
type NoEnvError struct{ Dir string }

func (e *NoEnvError) Error() string {
	return e.Dir + " is neither a virtual environment (it has no pyvenv.cfg) nor a conda prefix (it has no conda-meta)"
}

// Scan lists the environment in a folder. Files that Python compiled do not count for its key.
func Scan(dir string) (*Env, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	e := &Env{Dir: dir}
	h := sha256.New()
	if _, err := os.Stat(filepath.Join(dir, "pyvenv.cfg")); err != nil {
		if _, err := os.Stat(filepath.Join(dir, "conda-meta")); err != nil {
			return nil, &NoEnvError{dir}
		}
		e.Conda = true
	}
	fmt.Fprintf(h, "gorun environment 1 %q\n", dir)
	left := room{maxFiles, maxNames, maxBytes}
	err = e.walk(func(rel string, info fs.FileInfo, target string) error {
		e.Files++
		size := int64(0)
		if info.Mode().IsRegular() {
			size = info.Size()
		}
		e.Bytes += size
		if err := left.take(rel, size); err != nil {
			return fmt.Errorf("%s is too large: %w", dir, err)
		}
		if strings.HasSuffix(rel, ".pyc") || info.IsDir() {
			return nil
		}
		_, err := fmt.Fprintf(h, "%q %o %d %d %q\n", rel, info.Mode(), info.Size(), info.ModTime().UnixNano(), target)
		return err
	})
	e.Key = hex.EncodeToString(h.Sum(nil)[:16])
	return e, err
}

// walk calls see with each folder, file and link, in the order of their names.
func (e *Env) walk(see func(rel string, info fs.FileInfo, target string) error) error {
	return filepath.WalkDir(e.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == e.Dir {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was removed meanwhile
		}
		if err != nil {
			return err
		}
		rel := path[len(e.Dir)+1:]
		target := ""
		switch info.Mode().Type() {
		case 0, fs.ModeDir:
		case fs.ModeSymlink:
			if target, err = os.Readlink(path); err != nil {
				return err
			}
		default:
			return nil // sockets and pipes are not copied
		}
		return see(rel, info, target)
	})
}

// Pack writes the environment: a tar, compressed by gzip.
func (e *Env) Pack(w io.Writer) error {
	out := bufio.NewWriterSize(w, 1<<20)
	zip, _ := gzip.NewWriterLevel(out, gzip.BestSpeed)
	archive := tar.NewWriter(zip)
	err := archive.WriteHeader(&tar.Header{
		Name:     prefixFile,
		Mode:     0o600,
		Size:     int64(len(e.Dir)),
		Typeflag: tar.TypeReg,
	})
	if err == nil {
		_, err = io.WriteString(archive, e.Dir)
	}
	if err == nil {
		err = e.walk(func(rel string, info fs.FileInfo, target string) error {
			return e.packOne(archive, rel, info, target)
		})
	}
	return errors.Join(err, archive.Close(), zip.Close(), out.Flush())
}

func (e *Env) packOne(archive *tar.Writer, rel string, info fs.FileInfo, target string) error {
	header := &tar.Header{
		Name:     rel,
		Mode:     int64(info.Mode().Perm()),
		ModTime:  info.ModTime(),
		Typeflag: tar.TypeDir,
		Format:   tar.FormatPAX,
	}
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		header.Typeflag = tar.TypeSymlink
		header.Linkname = target
	case info.Mode().IsRegular():
		return e.packFile(archive, header)
	}
	return archive.WriteHeader(header)
}

func (e *Env) packFile(archive *tar.Writer, header *tar.Header) error {
	file, err := trust.Open(filepath.Join(e.Dir, header.Name))
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header.Typeflag = tar.TypeReg
	header.Size = info.Size()
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	n, err := io.CopyN(archive, file, header.Size)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s became shorter while it was packed, after %d bytes", file.Name(), n)
	}
	return err
}
