package metrics

import (
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/net/admit"
	"github.com/gorun/gorun/internal/sight/watch"
)

const (
	answerTime = 10 * time.Second // bound on the writing of one answer
	idleTime   = time.Minute      // bound on a connection between two requests
)

// Server answers GET /metrics with the last sample, in the format that the client prefers. There is
// no login, so its connections are bounded as long as they last.
type Server struct {
	listener net.Listener
	http     *http.Server
	wg       sync.WaitGroup

	mu        sync.Mutex
	job       Job
	sample    watch.Sample
	documents map[Format][]byte // made of sample when a client asks, and shared by all clients
}

// Listen serves at an address until Close.
func Listen(at netip.AddrPort) (*Server, error) {
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		return nil, err
	}
	s := &Server{listener: l, documents: map[Format][]byte{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", s.answer)
	s.http = admit.NewServer(forThisMachine(mux))
	s.http.WriteTimeout = answerTime
	s.http.IdleTimeout = idleTime
	pending := admit.NewPending(admit.Bounds{
		Own:       64,
		Other:     16,
		Elsewhere: 64,
	})
	s.wg.Go(func() { _ = s.http.Serve(pending.Listener(l)) }) // ends with Close
	return s, nil
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	format := Prometheus
	if strings.Contains(r.Header.Get("Accept"), "application/openmetrics-text") {
		format = OpenMetrics
	}
	w.Header().Set("Content-Type", format.ContentType())
	w.Header().Set("Vary", "Accept")
	_, _ = w.Write(s.document(format)) // the client may have hung up
}

// forThisMachine refuses requests for a name that is not this machine's: a page in the user's
// browser may have given its own name the address of the server.
func forThisMachine(next http.Handler) http.Handler {
	name, err := os.Hostname()
	if err != nil {
		name = ""
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if local == nil || !namesMachine(r.Host, local.AddrPort().Addr(), name) {
			w.Header().Set("Connection", "close")
			http.Error(w, "ask for this machine by its address, localhost or "+name, http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// namesMachine reports whether a Host header names the machine that has an address and a name: by
// that address, a name or an address of loopback, or its name.
func namesMachine(header string, local netip.Addr, name string) bool {
	host := header
	if h, _, err := net.SplitHostPort(header); err == nil {
		host = h
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return addr.IsLoopback() || addr.Unmap() == local.Unmap()
	}
	short, _, _ := strings.Cut(name, ".")
	return strings.EqualFold(host, "localhost") ||
		name != "" && (strings.EqualFold(host, name) || strings.EqualFold(host, short))
}

// URL returns the address of the metrics.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() + "/metrics" }

// Put stores a sample for later requests.
func (s *Server) Put(j Job, sample watch.Sample) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.job = j
	s.sample = sample
	s.documents = map[Format][]byte{}
	return nil
}

// document returns the document of the last sample, which the caller must not change.
func (s *Server) document(f Format) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.documents[f] == nil {
		s.documents[f] = f.Text(s.job, s.sample)
	}
	return s.documents[f]
}

// Close ends the server and its connections.
func (s *Server) Close() error {
	err := s.http.Close()
	s.wg.Wait()
	return err
}
