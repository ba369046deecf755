package metrics

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/sight/watch"
)

// Target publishes metrics: Put takes each new sample.
type Target interface {
	Put(Job, watch.Sample) error
	Close() error
}

// Address returns the address that text names: HOST:PORT or :PORT, where an empty host and
// localhost are 127.0.0.1. Other texts name files.
func Address(text string) (address netip.AddrPort, is bool) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return address, false
	}
	if host == "" || host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	number, portErr := strconv.ParseUint(port, 10, 16)
	return netip.AddrPortFrom(ip, uint16(number)), err == nil && portErr == nil
}

// file replaces a file by a document of each sample.
type file struct {
	path   string
	folder *os.Root // it stays the same, whoever renames folders
	format Format
}

// OpenFile returns a target that keeps a file up to date and removes it at the end. Readers never
// see a part of a document. A name that ends in .om is of OpenMetrics, others are of Prometheus.
func OpenFile(path string) (Target, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, withoutPath(err)
	}
	folder, err := trust.Folder(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	f := &file{path: path, folder: folder}
	if filepath.Ext(path) == ".om" {
		f.format = OpenMetrics
	}
	if err := f.write(nil); err != nil {
		folder.Close()
		return nil, err
	}
	return f, nil
}

func (f *file) Put(j Job, s watch.Sample) error { return f.write(f.format.Text(j, s)) }

func (f *file) write(document []byte) error {
	// the collector reads *.prom
	name := filepath.Base(f.path)
	fresh := fmt.Sprintf(".%s.%d", name, os.Getpid())
	out, err := f.create(fresh)
	if err != nil {
		return withoutPath(err)
	}
	_, err = out.Write(document)
	err = errors.Join(err, out.Chmod(0o644), out.Close()) // readable by node_exporter, which runs as another user
	if err == nil {
		err = f.folder.Rename(fresh, name)
	}
	if err != nil {
		_ = f.folder.Remove(fresh)
	}
	return err
}

// withoutPath leaves out a path that the user does not know.
func withoutPath(err error) error {
	if wrong := (*fs.PathError)(nil); errors.As(err, &wrong) {
		return wrong.Err
	}
	return err
}

// create makes a file, in place of one of the same name that gorun has left.
func (f *file) create(name string) (*os.File, error) {
	err := f.folder.Remove(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return f.folder.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func (f *file) Close() error {
	return errors.Join(f.folder.Remove(filepath.Base(f.path)), f.folder.Close())
}
