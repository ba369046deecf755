package kv

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/gorun/gorun/internal/net/admit"
)

const (
	maxWait  = time.Hour // bound on one GET; the rank asks again
	bodyTime = 10 * time.Second
	maxNote  = 4 << 10
)

// bounds returns those on connections whose token is not known yet, on a server of n ranks. All
// ranks may connect at once, and ranks in containers may be other users.
func bounds(n int) admit.Bounds {
	const own = 256
	const others = 16
	more := 4 * n
	return admit.Bounds{
		Own:       own + more,
		Other:     others + more,
		Elsewhere: others + more,
	}
}

// MaxRequests returns the number of requests that a server of n ranks takes at a time.
func MaxRequests(n int) int { return 1024 + 8*n }

// JobInfo is the answer of GET /v1/job.
type JobInfo struct {
	Job   string `json:"job"`
	Epoch int    `json:"epoch"`
	Rank  int    `json:"rank"`
	Size  int    `json:"size"`
	Key   []byte `json:"key"` // the job's secret for this epoch
	*Location
}

// Location is the place of a rank of an elastic job in an epoch.
type Location struct {
	LocalRank int      `json:"local_rank"`
	LocalSize int      `json:"local_size"`
	CrossRank int      `json:"cross_rank"`
	CrossSize int      `json:"cross_size"`
	Node      int      `json:"node"`
	Nodes     int      `json:"nodes"`
	Addrs     []string `json:"addrs"`
}

// Backend answers the requests of ranks.
type Backend interface {
	// Fence adds a rank's value and waits for the values of all ranks.
	Fence(ctx context.Context, name string, rank int, value []byte) ([][]byte, error)
	// Put puts a key that the rank may put. The error is ErrAborted if it is one of a rank in an
	// epoch that is not the host's.
	Put(key string, value []byte) error
	// Get waits for the key until wait has passed or ctx ends.
	Get(ctx context.Context, key string, wait time.Duration) (value []byte, found bool, err error)
	// Lost reports that rank by lost its connection to rank.
	Lost(by, rank int, cause string)
	// Left reports that a call of rank by failed because rank had left what the two shared. The job
	// may go on.
	Left(by, rank int, cause string)
	// AbortJob reports that rank by ends the job, for what rank has done.
	AbortJob(by, rank int, cause string)
	// Note shows the job's user a line that rank by has written.
	Note(by int, note Note)
	// Aborted returns a channel that is closed when the job is aborted. AbortInfo is the cause as
	// JSON, from then on.
	Aborted() <-chan struct{}
	AbortInfo() []byte
}

// Elastic is a Backend of an elastic job, whose ranks go from epoch to epoch.
type Elastic interface {
	// Park reports that the rank has left an epoch, 0 if it has been in none, and waits for a later
	// one. From then on the rank has the number in the answer.
	Park(ctx context.Context, left int) (JobInfo, error)
	// Joined reports that the rank has found the others of an epoch.
	Joined(epoch int)
	// Interrupted returns a channel that is closed when the rank must leave an epoch as soon as it
	// can.
	Interrupted(epoch int) <-chan struct{}
}

// ErrAborted is returned by a Backend whose job was aborted while it waited.
var ErrAborted = errors.New("the job was aborted")

// Server is the rank server: it serves the ranks of one host over HTTP on loopback. It answers only
// requests with one of the ranks' tokens.
type Server struct {
	addr    string
	server  *http.Server
	backend Backend
	// The key is the hash of a token, so that the time of a lookup reveals nothing.
	ranks  map[[sha256.Size]byte]*atomic.Pointer[JobInfo]
	inside atomic.Int64 // unanswered requests with a valid token
	done   chan struct{}
}

// OpenServer listens on a free port of 127.0.0.1 for ranks, given by token.
func OpenServer(ranks map[string]JobInfo, backend Backend) (*Server, error) {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	listener, err := lc.Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the rank server on loopback: %w", err)
	}
	s := &Server{
		addr:    listener.Addr().String(),
		backend: backend,
		ranks:   map[[sha256.Size]byte]*atomic.Pointer[JobInfo]{},
		done:    make(chan struct{}),
	}
	for token, info := range ranks {
		rank := new(atomic.Pointer[JobInfo])
		rank.Store(&info)
		s.ranks[sha256.Sum256([]byte(token))] = rank
	}
	s.server = admit.NewServer(s.admit(s.routes()))
	pending := admit.NewPending(bounds(len(ranks)))
	go func() {
		defer close(s.done)
		_ = s.server.Serve(pending.Listener(listener)) // ends with Close
	}()
	return s, nil
}

// Addr is the server's address, 127.0.0.1:port.
func (s *Server) Addr() string { return s.addr }

// Close ends every request and stops the server.
func (s *Server) Close() {
	_ = s.server.Close()
	<-s.done
}

// routes are the requests of ranks.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, serve func(w http.ResponseWriter, r *http.Request, rank JobInfo)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			rank, _ := r.Context().Value(rankKey{}).(JobInfo)
			serve(w, r, rank)
		})
	}
	handle("GET /v1/job", s.job)
	handle("POST /v1/fence/{name...}", s.fence)
	handle("PUT /v1/kv/{key...}", s.put)
	handle("GET /v1/kv/{key...}", s.get)
	handle("GET /v1/abort", s.abort)
	handle("POST /v1/lost", s.lost(s.backend.Lost))
	handle("POST /v1/left", s.lost(s.backend.Left))
	handle("POST /v1/abort", s.lost(s.backend.AbortJob))
	handle("POST /v1/note", s.note)
	if elastic, is := s.backend.(Elastic); is {
		e := elasticServer{s, elastic}
		handle("POST /v1/park", e.park)
		handle("POST /v1/joined", e.joined)
		handle("GET /v1/interrupt", e.interrupt)
	}
	return mux
}

type rankKey struct{}

// admit passes on a request whose token names a rank, and reads nothing else of it first. All other
// requests get the same answer, and so do those that a web page makes a user's browser send, which
// name another host or an origin.
func (s *Server) admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		rank, known := s.ranks[sha256.Sum256([]byte(token))]
		if !known || !bearer || r.Host != s.addr || r.Header.Get("Origin") != "" {
			w.Header().Set("Connection", "close")
			_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // do not wait for the body
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		admit.Authenticated(r.Context())
		defer s.inside.Add(-1)
		if s.inside.Add(1) > int64(MaxRequests(len(s.ranks))) {
			http.Error(w, "too many requests at one time", http.StatusServiceUnavailable)
			return
		}
		ctx := context.WithValue(context.WithValue(r.Context(), rankKey{}, *rank.Load()), rankPointerKey{}, rank)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func (s *Server) job(w http.ResponseWriter, _ *http.Request, rank JobInfo) { writeJSON(w, rank) }

func (s *Server) fence(w http.ResponseWriter, r *http.Request, rank JobInfo) {
	name := r.PathValue("name")
	if !validName(w, name, ownerOf(name).kind == anyRank) {
		return
	}
	value, ok := body(w, r, MaxFence)
	if !ok {
		return
	}
	values, err := s.backend.Fence(r.Context(), name, rank.Rank, value)
	var twice *DuplicateError
	switch {
	case errors.Is(err, ErrAborted):
		s.aborted(w)
	case errors.As(err, &twice):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		writeValues(w, values)
	}
}

func (s *Server) put(w http.ResponseWriter, r *http.Request, rank JobInfo) {
	key := r.PathValue("key")
	if !validName(w, key, ownerOf(key).isPutBy(rank)) {
		return
	}
	value, ok := body(w, r, MaxValue)
	if !ok {
		return
	}
	switch err := s.backend.Put(key, value); {
	case errors.Is(err, ErrAborted):
		s.aborted(w)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInsufficientStorage)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, _ JobInfo) {
	key := r.PathValue("key")
	if !validName(w, key, ownerOf(key).isReadByRanks()) {
		return
	}
	wait, err := time.ParseDuration(cmp.Or(r.URL.Query().Get("wait"), "0s"))
	if err != nil || wait < 0 || wait > maxWait {
		http.Error(w, "wait must be a duration such as 10s, at most 1h", http.StatusBadRequest)
		return
	}
	value, found, err := s.backend.Get(r.Context(), key, wait)
	switch {
	case errors.Is(err, ErrAborted):
		s.aborted(w)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case !found:
		w.WriteHeader(http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(value)
	}
}

func (s *Server) abort(w http.ResponseWriter, r *http.Request, _ JobInfo) {
	select {
	case <-s.backend.Aborted():
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(s.backend.AbortInfo())
	case <-r.Context().Done():
	}
}

// lost is a handler of reports about another rank.
func (s *Server) lost(report func(by, rank int, cause string)) func(http.ResponseWriter, *http.Request, JobInfo) {
	return func(w http.ResponseWriter, r *http.Request, rank JobInfo) {
		text, ok := body(w, r, MaxKey)
		if !ok {
			return
		}
		var lost struct {
			Rank  *int   `json:"rank"`
			Cause string `json:"cause"`
		}
		if err := json.Unmarshal(text, &lost); err != nil || lost.Rank == nil || *lost.Rank < 0 ||
			*lost.Rank >= rank.Size {
			http.Error(w, `want {"rank": a rank of this job, "cause": text}`, http.StatusBadRequest)
			return
		}
		report(rank.Rank, *lost.Rank, lost.Cause)
		w.WriteHeader(http.StatusNoContent)
	}
}

// Note is a line of a rank for the job's user.
type Note struct {
	Text  string `json:"text"`
	Stall bool   `json:"stall,omitempty"` // whether the text reports ranks that have not entered a collective
}

func (s *Server) note(w http.ResponseWriter, r *http.Request, rank JobInfo) {
	data, ok := body(w, r, maxNote)
	if !ok {
		return
	}
	var note Note
	if err := json.Unmarshal(data, &note); err != nil || note.Text == "" {
		http.Error(w, `want {"text": a line for the user}`, http.StatusBadRequest)
		return
	}
	s.backend.Note(rank.Rank, note)
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) aborted(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusGone)
	_, _ = w.Write(s.backend.AbortInfo())
}

// validName reports whether a rank may use the name of a fence or key, which it may for its owner's
// sake; if not, it answers the request. Names can reach the launcher, which fails a host that sends
// longer ones, and bytes that are not UTF-8 would change on the way.
func validName(w http.ResponseWriter, name string, may bool) bool {
	if !may {
		http.Error(w, "names that begin with "+strings.Join(reserved(), ", ")+" are gorun's own; only rank R of "+
			"epoch E puts keys that begin with epoch/E/rank/R/, and all ranks read them", http.StatusForbidden)
		return false
	}
	if len(name) <= MaxKey && utf8.ValidString(name) {
		return true
	}
	http.Error(w, fmt.Sprintf("names and keys are UTF-8 of at most %d bytes", MaxKey), http.StatusBadRequest)
	return false
}

// body reads a request body of at most limit bytes, or answers the request.
func body(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, bool) {
	clock := http.NewResponseController(w)
	_ = clock.SetReadDeadline(time.Now().Add(bodyTime))
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		http.Error(w, fmt.Sprintf("at most %d bytes are allowed here", limit), http.StatusRequestEntityTooLarge)
	case err != nil:
		http.Error(w, "body cut short", http.StatusBadRequest)
	default:
		_ = clock.SetReadDeadline(time.Time{}) // a deadline that passes would look like the rank's end
		return data, true
	}
	return nil, false
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // it fails only if the rank has ended
}

// writeValues answers with the values of a fence. All ranks of the host get them at a time, each
// when it reads: they are not encoded as a whole for each.
func writeValues(w http.ResponseWriter, values [][]byte) {
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriter(w) // it fails only if the rank has ended
	var text []byte
	before := `{"values":[`
	for _, value := range values {
		text = append(text[:0], before...)
		before = ","
		text = append(text, '"')
		text = base64.StdEncoding.AppendEncode(text, value)
		text = append(text, '"')
		_, _ = out.Write(text)
	}
	if len(values) == 0 {
		_, _ = out.WriteString(before)
	}
	_, _ = out.WriteString("]}\n")
	_ = out.Flush()
}

// elasticServer answers the requests that only ranks of an elastic job make.
type elasticServer struct {
	server  *Server
	elastic Elastic
}

// rankPointerKey is the context key for the rank that a request's token names; park changes the
// rank.
type rankPointerKey struct{}

// park waits for the next epoch. The token names the rank of its holder there from then on.
func (e elasticServer) park(w http.ResponseWriter, r *http.Request, _ JobInfo) {
	text, ok := body(w, r, MaxKey)
	if !ok {
		return
	}
	var ask struct {
		Left *int `json:"left"`
	}
	if err := json.Unmarshal(text, &ask); err != nil || ask.Left == nil || *ask.Left < 0 {
		http.Error(w, `want {"left": the number of an epoch, or 0}`, http.StatusBadRequest)
		return
	}
	info, err := e.elastic.Park(r.Context(), *ask.Left)
	switch {
	case errors.Is(err, ErrAborted):
		e.server.aborted(w)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		if rank, is := r.Context().Value(rankPointerKey{}).(*atomic.Pointer[JobInfo]); is {
			rank.Store(&info)
		}
		writeJSON(w, info)
	}
}

func (e elasticServer) joined(w http.ResponseWriter, r *http.Request, rank JobInfo) {
	e.elastic.Joined(rank.Epoch)
	w.WriteHeader(http.StatusNoContent)
}

// interrupt waits until the rank must leave the epoch that it names, and answers with that epoch.
func (e elasticServer) interrupt(w http.ResponseWriter, r *http.Request, _ JobInfo) {
	epoch, err := strconv.Atoi(r.URL.Query().Get("epoch"))
	if err != nil {
		http.Error(w, "epoch must be a number", http.StatusBadRequest)
		return
	}
	select {
	case <-e.elastic.Interrupted(epoch):
		writeJSON(w, struct {
			Epoch int `json:"epoch"`
		}{epoch})
	case <-r.Context().Done():
	}
}
