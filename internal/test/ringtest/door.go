// Package ringtest runs the ranks of a job inside a test, without gorun: it
// serves the door that an agent serves, and starts ranks as goroutines or tells
// what environment to give to processes.
package ringtest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gorun/gorun/internal/kv"
	"github.com/gorun/gorun/internal/rankenv"
)

// Host is the name of the host that all ranks of a Door are on, unless it has several.
const Host = "testhost"

// Abort is why a job has failed.
type Abort struct {
	Rank  int    `json:"rank"`
	Host  string `json:"host"`
	Cause string `json:"cause"`
}

// Door is an agent's door to a job of its own, in memory. It ends with the test.
type Door struct {
	Job   string
	Epoch int
	Key   []byte
	Size  int
	// Transport is how ranks are told to move data: tcp unless it is changed
	// before they join.
	Transport string
	// Hosts says how many ranks each host has, in the order of ranks. Without it there is
	// one host. All of them are this machine, but ranks take them for different ones.
	Hosts []int

	server *httptest.Server
	store  *kv.Store
	closed sync.Once
	more   sync.WaitGroup // servers of Listen
	done   chan struct{}  // closed when the door is

	mu      sync.Mutex
	fences  map[string]*fence
	onPost  func(name string, rank int, value []byte) []byte
	named   map[int]string // hosts, by rank, as the ranks were told
	lost    []Abort
	aborted chan struct{}
	abort   Abort
}

type fence struct {
	posted map[int]bool
	values [][]byte
	full   chan struct{}
}

// NewDoor serves a job of size ranks.
func NewDoor(tb testing.TB, size int) *Door {
	d := &Door{
		Job: "job-" + rand.Text(), Key: make([]byte, 32), Size: size, Transport: "tcp",
		done: make(chan struct{}), aborted: make(chan struct{}), fences: map[string]*fence{}, named: map[int]string{},
		store: kv.NewStore(),
	}
	rand.Read(d.Key)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/job", d.serveJob)
	mux.HandleFunc("POST /v1/fence/{name...}", d.serveFence)
	mux.HandleFunc("GET /v1/abort", d.serveAbort)
	mux.HandleFunc("POST /v1/lost", d.serveLost)
	mux.HandleFunc("PUT /v1/kv/{key...}", d.servePut)
	mux.HandleFunc("GET /v1/kv/{key...}", d.serveGet)
	d.server = httptest.NewUnstartedServer(mux) // known to the handlers before they run
	d.server.Start()
	tb.Cleanup(d.Close)
	return d
}

// OnPost has change look at every value that a rank brings to a fence: the others get
// what it returns. The rank waits meanwhile.
func (d *Door) OnPost(change func(name string, rank int, value []byte) []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onPost = change
}

// Listen serves the door on l too, which may be another network's. It returns at once; l
// ends with the door. Ranks that come there are told so by their environment, as in
// [Door.Rank] with Agent changed.
func (d *Door) Listen(l net.Listener) {
	d.more.Go(func() {
		_ = d.server.Config.Serve(l) // it ends with the server
	})
}

// Close ends the door before the test ends. Ranks that are still there see their
// agent go.
func (d *Door) Close() {
	d.closed.Do(func() {
		close(d.done)
		_ = d.server.Config.Close() // what was not answered will not be
		d.server.Close()
		d.more.Wait()
	})
}

// Rank returns the place of a rank, which listens on addr, an IP address.
func (d *Door) Rank(rank int, addr string) rankenv.Rank {
	r := rankenv.Rank{
		Job: d.Job, Epoch: d.Epoch, Rank: rank, Size: d.Size, LocalRank: rank, LocalSize: d.Size, CrossSize: 1,
		Host: Host, Addr: addr, Agent: d.server.Listener.Addr().String(), Token: "token-" + strconv.Itoa(rank),
	}
	first := 0
	for i, n := range d.Hosts {
		if rank >= first && rank < first+n {
			r.Host, r.LocalRank, r.LocalSize = Host+strconv.Itoa(i), rank-first, n
		}
		first += n
	}
	d.mu.Lock()
	d.named[rank] = r.Host
	d.mu.Unlock()
	if d.Hosts == nil {
		return r
	}
	r.CrossRank, r.CrossSize = 0, 0
	for i, n := range d.Hosts {
		if n <= r.LocalRank {
			continue
		}
		if r.Host == Host+strconv.Itoa(i) {
			r.CrossRank = r.CrossSize
		}
		r.CrossSize++
	}
	return r
}

// Environ returns the environment of a rank on 127.0.0.1, as NAME=value.
func (d *Door) Environ(rank int) []string {
	return append(d.Rank(rank, "127.0.0.1").Environ(), "RING_TRANSPORT="+d.Transport)
}

// Lookup finds names in environ, as [os.LookupEnv] does in the process's own.
func Lookup(environ []string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, entry := range environ {
			if value, ok := strings.CutPrefix(entry, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}
}

// Abort ends the job, as the launcher does when a rank fails. The first reason stays.
func (d *Door) Abort(a Abort) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail(a)
}

func (d *Door) fail(a Abort) {
	select {
	case <-d.aborted:
	default:
		d.abort = a
		close(d.aborted)
	}
}

// Vanish closes the port and drops every connection without a word, as an agent
// does that is killed.
func (d *Door) Vanish() {
	_ = d.server.Listener.Close() // it can only be closed already
	d.server.CloseClientConnections()
}

// Lost returns the reports of lost ranks so far, oldest first.
func (d *Door) Lost() []Abort {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Abort(nil), d.lost...)
}

func (d *Door) rank(w http.ResponseWriter, r *http.Request) (int, bool) {
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer token-")
	rank, err := strconv.Atoi(text)
	if !ok || err != nil || rank < 0 || rank >= d.Size {
		w.WriteHeader(http.StatusUnauthorized)
		return 0, false
	}
	return rank, true
}

func answer(w http.ResponseWriter, status int, v any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

func (d *Door) serveJob(w http.ResponseWriter, r *http.Request) {
	rank, ok := d.rank(w, r)
	if !ok {
		return
	}
	answer(w, http.StatusOK, map[string]any{"job": d.Job, "epoch": d.Epoch, "rank": rank, "size": d.Size, "key": d.Key})
}

func (d *Door) serveFence(w http.ResponseWriter, r *http.Request) {
	rank, ok := d.rank(w, r)
	if !ok {
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	d.mu.Lock()
	change := d.onPost
	d.mu.Unlock()
	if change != nil {
		body = change(r.PathValue("name"), rank, body)
	}
	f, ok := d.post(r.PathValue("name"), rank, body)
	if !ok {
		w.WriteHeader(http.StatusConflict)
		return
	}
	select {
	case <-f.full:
		answer(w, http.StatusOK, map[string]any{"values": f.values})
	case <-d.aborted:
		answer(w, http.StatusGone, d.abort)
	case <-r.Context().Done():
	case <-d.done:
	}
}

func (d *Door) post(name string, rank int, value []byte) (*fence, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.fences[name]
	if f == nil {
		f = &fence{posted: map[int]bool{}, values: make([][]byte, d.Size), full: make(chan struct{})}
		d.fences[name] = f
	}
	if f.posted[rank] {
		return nil, false
	}
	f.posted[rank], f.values[rank] = true, value
	if len(f.posted) == d.Size {
		close(f.full)
	}
	return f, true
}

func (d *Door) serveAbort(w http.ResponseWriter, r *http.Request) {
	if _, ok := d.rank(w, r); !ok {
		return
	}
	select {
	case <-d.aborted:
		answer(w, http.StatusOK, d.abort)
	case <-r.Context().Done():
	case <-d.done:
	}
}

func (d *Door) serveLost(w http.ResponseWriter, r *http.Request) {
	if _, ok := d.rank(w, r); !ok {
		return
	}
	a := Abort{}
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil || a.Rank < 0 || a.Rank >= d.Size {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	d.mu.Lock()
	a.Host = d.named[a.Rank]
	d.lost = append(d.lost, a)
	d.fail(a)
	d.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

// String says what the door has heard, for messages of tests.
func (d *Door) String() string { return fmt.Sprintf("job %s, lost %v", d.Job, d.Lost()) }
