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
	f := &file{path: path}
	if filepath.Ext(path) == ".om" {
		f.format = OpenMetrics
	}
	return f, f.write(nil)
}

func (f *file) Put(j Job, s watch.Sample) error { return f.write(f.format.Text(j, s)) }

func (f *file) write(document []byte) error {
	// the collector reads *.prom
	fresh := filepath.Join(filepath.Dir(f.path), fmt.Sprintf(".%s.%d", filepath.Base(f.path), os.Getpid()))
	out, err := trust.Create(fresh)
	if wrong := (*fs.PathError)(nil); errors.As(err, &wrong) {
		return wrong.Err // without the path, which the user does not know
	}
	if err != nil {
		return err
	}
	_, err = out.Write(document)
	err = errors.Join(err, out.Chmod(0o644), out.Close()) // readable by node_exporter, which runs as another user
	if err == nil {
		err = os.Rename(fresh, f.path)
	}
	if err != nil {
		_ = os.Remove(fresh)
	}
	return err
}

func (f *file) Close() error { return os.Remove(f.path) }
