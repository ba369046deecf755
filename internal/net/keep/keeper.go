package keep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/host/resident"
	"github.com/gorun/gorun/internal/net/frames"
	"github.com/gorun/gorun/internal/sight/control"
)

const (
	// partingTime bounds the delivery of a lost host's remaining output to a client.
	partingTime = 2 * time.Second
	// putTime bounds the time that a host takes to give a file up whose client has gone.
	putTime = time.Minute
)

// Keeper keeps hosts. It is safe for concurrent use.
type Keeper struct {
	hosts   map[string]*host // by identity
	putTime time.Duration    // the constant; shorter in tests

	mu      sync.Mutex
	closing bool // no request begins any more
	active  int  // number of running requests
	idle    time.Time
	changed chan struct{} // closed when active or closing changes
}

// New returns a keeper of hosts. Several hosts may have one identity.
func New(hosts []Host, trace func(format string, args ...any)) *Keeper {
	k := &Keeper{
		hosts:   map[string]*host{},
		putTime: putTime,
		idle:    time.Now(),
		changed: make(chan struct{}),
	}
	for _, h := range hosts {
		k.hosts[h.Identity] = &host{Host: h, trace: trace}
	}
	return k
}

// HostError is the error of connecting to a host.
type HostError struct {
	Host string
	Err  error
}

// Connect dials all hosts, each once, and returns those that failed.
func (k *Keeper) Connect(ctx context.Context) (failed []HostError) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, h := range k.hosts {
		wg.Go(func() {
			if err := h.connect(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, HostError{h.Name, err})
			}
		})
	}
	wg.Wait()
	return failed
}

// Keep keeps the connections until ctx ends, and closes them.
func (k *Keeper) Keep(ctx context.Context) {
	var wg sync.WaitGroup
	for _, h := range k.hosts {
		wg.Go(func() { h.keep(ctx) })
	}
	wg.Wait()
}

// Drain refuses new requests.
func (k *Keeper) Drain() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closing = true
	k.change()
}

// Use returns the number of running requests, the time since there are none, and a channel that is
// closed when either changes.
func (k *Keeper) Use() (active int, idle time.Time, changed <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.active, k.idle, k.changed
}

func (k *Keeper) change() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// begin counts a request as running until the caller calls end.
func (k *Keeper) begin() (end func(), ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closing {
		return nil, false
	}
	k.active++
	k.change()
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.active--
		k.idle = time.Now()
		k.change()
	}, true
}

// Serve is a control.Actions.Stream.
func (k *Keeper) Serve(w http.ResponseWriter, r *http.Request, path string) bool {
	handlers := map[string]func(http.ResponseWriter, *http.Request, *host, Request){PathReach: k.reach, PathRun: k.run,
		PathPut: k.put, PathAgent: k.agent}
	handle := handlers[path]
	if handle == nil || r.Method != http.MethodPost {
		http.Error(w, "it keeps hosts for jobs, and has no ranks", http.StatusNotFound)
		return true
	}
	var want Request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<20)).Decode(&want); err != nil {
		http.Error(w, fmt.Sprintf("read the request: %v", err), http.StatusBadRequest)
		return true
	}
	h := k.hosts[want.Identity]
	if h == nil {
		http.Error(w, "the host is not kept with these SSH settings", http.StatusNotFound)
		return true
	}
	end, ok := k.begin()
	if !ok {
		http.Error(w, "gorun down has been called", http.StatusServiceUnavailable)
		return true
	}
	defer end()
	handle(w, r, h, want)
	return true
}

func (k *Keeper) reach(w http.ResponseWriter, r *http.Request, h *host, _ Request) {
	reached, err := h.reach(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(reached) // the client may have hung up
}

// run runs a command in a session of its own.
func (k *Keeper) run(w http.ResponseWriter, r *http.Request, h *host, want Request) {
	k.session(w, r, h, func(ctx context.Context, conn Conn, stdin io.Reader, to *frames.Writer) error {
		return conn.Run(ctx, want.Argv, stdin, to.Stream(frames.Out), to.Stream(frames.Err))
	})
}

// put writes a file. A client that goes before the end of the file leaves none.
func (k *Keeper) put(w http.ResponseWriter, r *http.Request, h *host, want Request) {
	k.session(w, r, h, func(ctx context.Context, conn Conn, stdin io.Reader, _ *frames.Writer) error {
		// The end of its ctx ends the connection, for all jobs. The end of stdin ends it as well,
		// unless the host does not answer.
		answering, end := context.WithCancel(context.WithoutCancel(ctx))
		ended := make(chan struct{})
		defer close(ended)
		defer context.AfterFunc(ctx, func() {
			select {
			case <-time.After(k.putTime):
				end()
			case <-ended:
			}
		})()
		return conn.Put(answering, want.Name, fs.FileMode(want.Mode)&fs.ModePerm, stdin)
	})
}

// session upgrades the client's connection, and runs a function on a connection to the host that
// has room. It ends when the client hangs up.
func (k *Keeper) session(w http.ResponseWriter, r *http.Request, h *host,
	do func(ctx context.Context, conn Conn, stdin io.Reader, to *frames.Writer) error) {
	conn, release, err := h.take(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer release()
	client, early, err := control.Upgrade(w, r)
	if err != nil {
		return // it is answered
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	to := frames.NewWriter(client)
	stdin, fed := io.Pipe()
	var input sync.WaitGroup
	input.Go(func() {
		select {
		case <-conn.Done(): // closing it waits for output, which a stopped client does not take
			_ = client.SetWriteDeadline(time.Now().Add(partingTime))
		case <-ctx.Done():
		}
	})
	gone := func(err error) {
		fed.CloseWithError(fmt.Errorf("the job's gorun closed the connection: %w", err))
		cancel()
	}
	input.Go(func() { gone(frames.Input(early, fed)) }) // until the client closes the connection
	input.Go(func() {
		control.AwaitHangUp(ctx, client) // a host that takes no input would keep the client
		gone(io.EOF)
	})
	_ = to.SendJSON(frames.Last, endOf(do(ctx, conn, stdin, to)))
	cancel()
	stdin.Close()
	client.Close()
	input.Wait()
}

// endOf returns the End for a command's error.
func endOf(err error) End {
	var status interface{ ExitCode() int }
	switch {
	case err == nil:
		return End{Exited: true}
	case errors.As(err, &status):
		return End{Exited: true, Code: status.ExitCode(), Error: err.Error()}
	}
	return End{Error: err.Error()}
}

// agent passes bytes between the client and an agent that the resident agent starts.
func (k *Keeper) agent(w http.ResponseWriter, r *http.Request, h *host, want Request) {
	res := h.resident()
	if res == nil {
		http.Error(w, "the host has no resident agent", http.StatusConflict)
		return
	}
	stream, err := res.open(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	defer stream.Close()
	stop := context.AfterFunc(r.Context(), func() { stream.Close() }) // the client may go before a host takes it
	err = frames.NewWriter(stream).SendJSON(frames.Begin, resident.Start{Nonce: want.Nonce})
	stop()
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	client, early, err := control.Upgrade(w, r)
	if err != nil {
		return // it is answered
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var input sync.WaitGroup
	input.Go(func() {
		_, _ = io.Copy(stream, early)
		stream.Close() // the client has hung up
	})
	input.Go(func() {
		control.AwaitHangUp(ctx, client) // a host that takes no input would keep the client
		stream.Close()
	})
	_, _ = io.Copy(client, stream)
	client.Close()
	cancel()
	input.Wait()
}
