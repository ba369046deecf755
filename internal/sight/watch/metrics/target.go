package metrics

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

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

// Server answers GET /metrics with the last sample, in the format that the client prefers.
type Server struct {
	listener net.Listener
	http     http.Server
	wg       sync.WaitGroup

	mu     sync.Mutex
	job    Job
	sample *watch.Sample // nil: no sample yet
}

// Listen serves at an address until Close.
func Listen(at netip.AddrPort) (*Server, error) {
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		return nil, err
	}
	s := &Server{listener: l}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		format := Prometheus
		if strings.Contains(r.Header.Get("Accept"), "application/openmetrics-text") {
			format = OpenMetrics
		}
		w.Header().Set("Content-Type", format.ContentType())
		w.Header().Set("Vary", "Accept")
		_, _ = w.Write(s.document(format)) // the client may have hung up
	})
	s.http = http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
	s.wg.Go(func() { _ = s.http.Serve(l) }) // ends with Close
	return s, nil
}

// URL returns the address of the metrics.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() + "/metrics" }

// Put stores a sample for later requests.
func (s *Server) Put(j Job, sample watch.Sample) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.job = j
	s.sample = &sample
	return nil
}

func (s *Server) document(f Format) []byte {
	s.mu.Lock()
	j := s.job
	sample := s.sample
	s.mu.Unlock()
	if sample == nil {
		sample = &watch.Sample{} // a sample without ranks
	}
	return f.Text(j, *sample)
}

// Close ends the server and its connections.
func (s *Server) Close() error {
	err := s.http.Close()
	s.wg.Wait()
	return err
}
