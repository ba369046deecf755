package kv

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

const (
	maxWait    = time.Hour // of one GET; the rank asks again
	headerTime = 5 * time.Second
	bodyTime   = 10 * time.Second
	maxNote    = 4 << 10
)

// MaxRequests is how many requests of n ranks may be in a door at one time.
func MaxRequests(n int) int { return 1024 + 8*n }

// JobInfo is what GET /v1/job answers.
type JobInfo struct {
	Job   string `json:"job"`
	Epoch int    `json:"epoch"`
	Rank  int    `json:"rank"`
	Size  int    `json:"size"`
	Key   []byte `json:"key"` // the job's secret for this epoch
	*Place
}

// Place is what a rank of an elastic job is told of its place besides: it has another one in each epoch.
type Place struct {
	LocalRank int      `json:"local_rank"`
	LocalSize int      `json:"local_size"`
	CrossRank int      `json:"cross_rank"`
	CrossSize int      `json:"cross_size"`
	Node      int      `json:"node"`
	Nodes     int      `json:"nodes"`
	Addrs     []string `json:"addrs"`
}

// Backend is where a Door takes what ranks ask for.
type Backend interface {
	// Fence brings a rank's value and waits for the values of all ranks.
	Fence(ctx context.Context, name string, rank int, value []byte) ([][]byte, error)
	Put(key string, value []byte) error
	// Get waits for the key at most wait, and while ctx lasts.
	Get(ctx context.Context, key string, wait time.Duration) (value []byte, found bool, err error)
	// Lost says that rank by lost its connection to rank.
	Lost(by, rank int, cause string)
	// Note has the job's user told a line about rank by, in its own words.
	Note(by int, text string)
	// Aborted returns a channel that is closed when the job is aborted;
	// AbortInfo, to be asked after that, says why, as JSON.
	Aborted() <-chan struct{}
	AbortInfo() []byte
}

// Elastic is a Backend of an elastic job, whose ranks go from epoch to epoch.
type Elastic interface {
	// Park says that the rank has left an epoch, 0 if it has been in none, and waits for a later one. From then on the rank is who the
	// answer says.
	Park(ctx context.Context, left int) (JobInfo, error)
	// Joined says that the rank has found the others of an epoch.
	Joined(epoch int)
	// Interrupted returns a channel that is closed when the rank is to leave an epoch as soon as it can.
	Interrupted(epoch int) <-chan struct{}
}

// ErrAborted is returned by a Backend whose job was aborted while it waited.
var ErrAborted = errors.New("the job was aborted")

// Door serves the ranks of one host over HTTP on loopback. A request is
// answered only with one of the ranks' tokens.
type Door struct {
	addr    string
	server  *http.Server
	backend Backend
	ranks   map[[sha256.Size]byte]*atomic.Pointer[JobInfo] // by hash of the token, so that a look-up's time tells nothing
	inside  atomic.Int64                                   // requests that were let in
	done    chan struct{}
}

// OpenDoor listens on a free port of 127.0.0.1 for ranks, given by token.
func OpenDoor(ranks map[string]JobInfo, backend Backend) (*Door, error) {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	listener, err := lc.Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the ranks' door on loopback: %w", err)
	}
	d := &Door{addr: listener.Addr().String(), backend: backend, ranks: map[[sha256.Size]byte]*atomic.Pointer[JobInfo]{}, done: make(chan struct{})}
	for token, info := range ranks {
		place := new(atomic.Pointer[JobInfo])
		place.Store(&info)
		d.ranks[sha256.Sum256([]byte(token))] = place
	}
	d.server = &http.Server{
		Handler:           d.admit(d.routes()),
		ConnContext:       withGuest,
		ReadHeaderTimeout: headerTime,
		MaxHeaderBytes:    8 << 10,

		DisableGeneralOptionsHandler: true, // it would answer strangers
		ErrorLog:                     log.New(io.Discard, "", 0),
	}
	go func() {
		defer close(d.done)
		_ = d.server.Serve(newGate(listener, len(ranks))) // ends with Close
	}()
	return d, nil
}

// Addr is the door's address, 127.0.0.1:port.
func (d *Door) Addr() string { return d.addr }

// Close ends every request and closes the door.
func (d *Door) Close() {
	_ = d.server.Close()
	<-d.done
}

// routes are what a rank may ask for.
func (d *Door) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, serve func(w http.ResponseWriter, r *http.Request, rank JobInfo)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			rank, _ := r.Context().Value(rankKey{}).(JobInfo)
			serve(w, r, rank)
		})
	}
	handle("GET /v1/job", d.job)
	handle("POST /v1/fence/{name...}", d.fence)
	handle("PUT /v1/kv/{key...}", d.put)
	handle("GET /v1/kv/{key...}", d.get)
	handle("GET /v1/abort", d.abort)
	handle("POST /v1/lost", d.lost)
	handle("POST /v1/note", d.note)
	if elastic, is := d.backend.(Elastic); is {
		e := elasticDoor{d, elastic}
		handle("POST /v1/park", e.park)
		handle("POST /v1/joined", e.joined)
		handle("GET /v1/interrupt", e.interrupt)
	}
	return mux
}

type rankKey struct{}

// admit lets a request in whose token names a rank, before anything else about it is looked at. To
// all others there is one answer, whatever they ask for. The browser of a user is among them, whichever page
// makes it ask: it names another host, or where it comes from.
func (d *Door) admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		rank, known := d.ranks[sha256.Sum256([]byte(token))]
		if !known || !bearer || r.Host != d.addr || r.Header.Get("Origin") != "" {
			w.Header().Set("Connection", "close")
			_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // the body is not waited for
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		proven(r.Context())
		defer d.inside.Add(-1)
		if d.inside.Add(1) > int64(MaxRequests(len(d.ranks))) {
			http.Error(w, "too many requests at one time", http.StatusServiceUnavailable)
			return
		}
		ctx := context.WithValue(context.WithValue(r.Context(), rankKey{}, *rank.Load()), placeKey{}, rank)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func (d *Door) job(w http.ResponseWriter, _ *http.Request, rank JobInfo) { writeJSON(w, rank) }

func (d *Door) fence(w http.ResponseWriter, r *http.Request, rank JobInfo) {
	if !sayable(w, r.PathValue("name")) {
		return
	}
	value, ok := body(w, r, MaxFence)
	if !ok {
		return
	}
	values, err := d.backend.Fence(r.Context(), r.PathValue("name"), rank.Rank, value)
	var twice *DuplicateError
	switch {
	case errors.Is(err, ErrAborted):
		d.gone(w)
	case errors.As(err, &twice):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		writeJSON(w, struct {
			Values [][]byte `json:"values"`
		}{values})
	}
}

func (d *Door) put(w http.ResponseWriter, r *http.Request, _ JobInfo) {
	if !sayable(w, r.PathValue("key")) {
		return
	}
	value, ok := body(w, r, MaxValue)
	if !ok {
		return
	}
	if err := d.backend.Put(r.PathValue("key"), value); err != nil {
		http.Error(w, err.Error(), http.StatusInsufficientStorage)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (d *Door) get(w http.ResponseWriter, r *http.Request, _ JobInfo) {
	if !sayable(w, r.PathValue("key")) {
		return
	}
	wait, err := time.ParseDuration(cmp.Or(r.URL.Query().Get("wait"), "0s"))
	if err != nil || wait < 0 || wait > maxWait {
		http.Error(w, "wait must be a duration such as 10s, at most 1h", http.StatusBadRequest)
		return
	}
	value, found, err := d.backend.Get(r.Context(), r.PathValue("key"), wait)
	switch {
	case errors.Is(err, ErrAborted):
		d.gone(w)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case !found:
		w.WriteHeader(http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(value)
	}
}

func (d *Door) abort(w http.ResponseWriter, r *http.Request, _ JobInfo) {
	select {
	case <-d.backend.Aborted():
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(d.backend.AbortInfo())
	case <-r.Context().Done():
	}
}

func (d *Door) lost(w http.ResponseWriter, r *http.Request, rank JobInfo) {
	text, ok := body(w, r, MaxKey)
	if !ok {
		return
	}
	var lost struct {
		Rank  *int   `json:"rank"`
		Cause string `json:"cause"`
	}
	if err := json.Unmarshal(text, &lost); err != nil || lost.Rank == nil || *lost.Rank < 0 || *lost.Rank >= rank.Size {
		http.Error(w, `want {"rank": a rank of this job, "cause": text}`, http.StatusBadRequest)
		return
	}
	d.backend.Lost(rank.Rank, *lost.Rank, lost.Cause)
	w.WriteHeader(http.StatusNoContent)
}

func (d *Door) note(w http.ResponseWriter, r *http.Request, rank JobInfo) {
	data, ok := body(w, r, maxNote)
	if !ok {
		return
	}
	var note struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(data, &note); err != nil || note.Text == "" {
		http.Error(w, `want {"text": a line for the user}`, http.StatusBadRequest)
		return
	}
	d.backend.Note(rank.Rank, note.Text)
	w.WriteHeader(http.StatusNoContent)
}

func (d *Door) gone(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusGone)
	_, _ = w.Write(d.backend.AbortInfo())
}

// sayable answers a request for a fence or key of which the launcher cannot be told: it gives up a host that says longer ones, and bytes that
// are not UTF-8 do not survive the way there.
func sayable(w http.ResponseWriter, name string) bool {
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
		_ = clock.SetReadDeadline(time.Time{}) // or the end of the time would look like the rank's end
		return data, true
	}
	return nil, false
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the rank is gone if this fails
}
