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
	"sync"
	"time"

	"github.com/gorun/gorun/internal/trust"
)

// Target is where metrics go: Put takes each new document.
type Target interface {
	Put(document []byte) error
	Close() error
}

// Address returns the address that text names: HOST:PORT or :PORT, where an empty host and localhost are 127.0.0.1. Other texts name files.
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

// file replaces a file by each document.
type file struct{ path string }

// OpenFile returns a target that keeps a file up to date and removes it at the end. Readers never see a part of a document.
func OpenFile(path string) (Target, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	f := &file{path}
	return f, f.Put(nil)
}

func (f *file) Put(document []byte) error {
	fresh := filepath.Join(filepath.Dir(f.path), fmt.Sprintf(".%s.%d", filepath.Base(f.path), os.Getpid())) // the collector reads *.prom
	out, err := trust.Create(fresh)
	if wrong := (*fs.PathError)(nil); errors.As(err, &wrong) {
		return wrong.Err // the user knows another path
	}
	if err != nil {
		return err
	}
	_, err = out.Write(document)
	err = errors.Join(err, out.Chmod(0o644), out.Close()) // node_exporter is another user
	if err == nil {
		err = os.Rename(fresh, f.path)
	}
	if err != nil {
		_ = os.Remove(fresh)
	}
	return err
}

func (f *file) Close() error { return os.Remove(f.path) }

// Server answers GET /metrics with the last document.
type Server struct {
	listener net.Listener
	http     http.Server
	wg       sync.WaitGroup

	mu       sync.Mutex
	document []byte
}

// Listen serves at an address until Close.
func Listen(at netip.AddrPort) (*Server, error) {
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		return nil, err
	}
	s := &Server{listener: l}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		document := s.document
		s.mu.Unlock()
		w.Header().Set("Content-Type", ContentType)
		_, _ = w.Write(document) // the client may have gone
	})
	s.http = http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	s.wg.Go(func() { _ = s.http.Serve(l) }) // ends with Close
	return s, nil
}

// URL is where the metrics are.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() + "/metrics" }

// Put keeps a document for those who ask.
func (s *Server) Put(document []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.document = document
	return nil
}

// Close ends the server and its connections.
func (s *Server) Close() error {
	err := s.http.Close()
	s.wg.Wait()
	return err
}
