package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/net/admit"
)

// lingerTime bounds the time that an ended job's socket stays for clients that read the rest of the
// output.
const lingerTime = time.Second

// Stop is a request for the end of a job.
type Stop struct {
	Signal int  `json:"signal"` // SIGINT, SIGTERM or SIGHUP: the signal to gorun that the request stands for
	Now    bool `json:"now"`    // whether ranks get no grace period
}

// Actions perform clients' requests on a job. They are called concurrently.
type Actions struct {
	Stop func(Stop)
	// Stream serves a request at /v1/PATH whose answer is a stream. It reports whether the path
	// exists. nil: no such paths.
	Stream func(w http.ResponseWriter, r *http.Request, path string) bool
}

// Options configure a Server.
type Options struct {
	Place   Place
	Job     Job // ID, Machine, Log and times are set by the server, and State unless it is Keeping
	Actions Actions
	// Failed is called once when the log of a detached job cannot be written any more.
	Failed func(error)
}

// Server serves one job until Close. It is safe for concurrent use, except that Listen must have
// succeeded before ID, Finish and Close.
type Server struct {
	place  Place
	act    Actions
	failed func(error)
	socket *socket
	http   *http.Server
	life   context.Context
	end    context.CancelFunc
	wg     sync.WaitGroup // goroutines of the listener and the log
	tail   *Tail

	mu     sync.Mutex
	job    Job
	ended  chan struct{}
	done   context.Context // ends when all that the job's gorun writes about it is written
	finish context.CancelFunc
	lost   error // error that kept the job out of the history
}

// New returns a server that accepts output and updates of the job at once, and clients from Listen
// on.
func New(o Options) *Server {
	s := &Server{
		place:  o.Place,
		act:    o.Actions,
		failed: o.Failed,
		job:    o.Job,
		ended:  make(chan struct{}),
		tail:   NewTail(o.Job.Detached),
	}
	s.job.Version = Version
	s.job.Machine = o.Place.Host
	s.job.State = cmp.Or(o.Job.State, Starting)
	s.job.Began = time.Now()
	s.life, s.end = context.WithCancel(context.Background())
	s.done, s.finish = context.WithCancel(context.Background())
	return s
}

// Listen makes the job's socket, and a folder for the log of a detached job. A *NameTakenError
// reports that a running job has the job's name. The server has no other use after an error.
func (s *Server) Listen() error {
	if s.job.Name != "" {
		unlock, err := s.place.lockNames()
		if err != nil {
			return err
		}
		defer unlock() // when others find this job
		if err := s.place.checkName(s.life, s.job.Name); err != nil {
			return err
		}
	}
	folders := s.place.folders()
	kind := ""
	if s.job.State == Keeping {
		kind = keeperPrefix
	}
	if s.job.Detached || kind != "" { // the runtime folder ends with the user's last session
		slices.Reverse(folders)
	}
	socket, err := s.place.listen(folders, kind)
	if err != nil {
		return err
	}
	s.socket = socket
	s.Update(func(j *Job) { j.ID = socket.id })
	if s.job.Detached {
		if err := s.openLog(s.failed); err != nil {
			return errors.Join(err, socket.Close())
		}
	}
	handler := sync.OnceValue(s.handler) // built on first use, because most jobs have no clients
	s.http = admit.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler().ServeHTTP(w, r)
	}))
	s.http.BaseContext = func(net.Listener) context.Context { return s.life }
	s.wg.Go(func() { _ = s.http.Serve(socket) }) // ends with Close
	return nil
}

// Folder makes the job's folder for what is kept after its end, if it is missing.
func (s *Server) Folder() (string, error) {
	if s.place.State == "" {
		return "", errNoFolder
	}
	dir, err := trust.OpenDir(s.place.State, true)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	if err := os.Mkdir(entry(dir, s.ID()), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return filepath.Join(s.place.State, s.ID()), nil
}

func (s *Server) openLog(failed func(error)) error {
	folder, err := s.Folder()
	if err != nil {
		return fmt.Errorf("keep the output of a detached job: %w", err)
	}
	s.job.Log = folder
	dir, err := trust.OpenDir(folder, false)
	if err != nil {
		return fmt.Errorf("keep the output of a detached job: %w", err)
	}
	if err := writeJob(dir, s.job); err != nil {
		dir.Close()
		return err
	}
	s.wg.Go(func() {
		defer dir.Close()
		writeLog(s.life, entry(dir, "."), s.tail, func(err error) {
			if at := (*fs.PathError)(nil); errors.As(err, &at) {
				err = &fs.PathError{Op: at.Op, Path: filepath.Join(folder, filepath.Base(at.Path)), Err: at.Err}
			}
			// The failed callback may print, which becomes output that the log must still take.
			s.wg.Go(func() { failed(err) })
		})
	})
	return nil
}

// ID returns the job's name.
func (s *Server) ID() string { return s.socket.id }

// Add records a piece of a rank's output.
func (s *Server) Add(rank, fd int, at time.Time, data []byte) { s.tail.Add(at, rank, fd, data) }

// Update changes the description of the job.
func (s *Server) Update(change func(*Job)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.job)
}

// Job returns the description of the job.
func (s *Server) Job() Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	job := s.job
	job.Exits = slices.Clone(job.Exits)
	return job
}

// Finish records the end of the job, after its last output. Close returns the error of writing the
// record.
func (s *Server) Finish(code int, cause string) {
	s.Update(func(j *Job) {
		j.State = Ended
		j.Ended = time.Now()
		j.Code = &code
		j.Cause = cause
	})
	s.tail.Close()
	close(s.ended)
	job := s.Job()
	job.Exits = nil                // they would make long lines of large jobs
	s.lost = s.place.remember(job) // before the socket goes, so that the job is always found
}

// Close removes the socket. Clients get lingerTime to read the remaining output.
func (s *Server) Close() error {
	s.tail.Close()
	s.finish()
	ctx, cancel := context.WithTimeout(context.Background(), lingerTime)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
	err := s.socket.Close()
	if s.job.Log == "" {
		s.end()
	} else {
		stop := time.AfterFunc(lingerTime, s.end) // the log writes the rest of the tail
		defer stop.Stop()
	}
	s.wg.Wait()
	s.end()
	return errors.Join(err, s.lost)
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/job", func(w http.ResponseWriter, _ *http.Request) { s.describe(w) })
	mux.HandleFunc("GET /v1/wait", func(w http.ResponseWriter, r *http.Request) {
		var over <-chan struct{} = s.ended
		if r.URL.Query().Get("until") == untilDone {
			over = s.done.Done()
		}
		select {
		case <-over:
			s.describe(w)
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("GET /v1/output", s.output)
	mux.HandleFunc("POST /v1/stop", func(w http.ResponseWriter, r *http.Request) {
		var stop Stop
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10)).Decode(&stop); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.act.Stop(stop)
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("/v1/{path}", func(w http.ResponseWriter, r *http.Request) {
		if s.act.Stream == nil || !s.act.Stream(w, r, r.PathValue("path")) {
			http.NotFound(w, r)
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != "" { // no browser has business here
			http.Error(w, "no pages of the web", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (s *Server) describe(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.Job()) // the client may have hung up
}

// output streams records from a position: with follow=1 until the job ends, else up to the last one
// that is present now, whatever ranks print meanwhile.
func (s *Server) output(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.ParseInt(r.FormValue("from"), 10, 64)
	if r.FormValue("from") == "" {
		from = s.tail.Start()
	}
	follow := r.FormValue("follow") == "1"
	present := s.tail.End()
	w.Header().Set("Content-Type", "application/octet-stream")
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	buf := make([]byte, 0, 128<<10)
	for follow || from < present {
		records, next := s.tail.Read(r.Context(), max(from, 0), buf, follow)
		if len(records) == 0 {
			return
		}
		if _, err := w.Write(records); err != nil || flush.Flush() != nil {
			return
		}
		from = next
	}
}
