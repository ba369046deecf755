package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/net/frames"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/sight/watch"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/session"
)

// hostRequests are requests that the job's hosts answer.
type hostRequests struct {
	sessions *launcher.Sessions
	watched  *watch.Watch
}

// serve is a control.Actions.Stream.
func (h hostRequests) serve(w http.ResponseWriter, r *http.Request, path string) bool {
	handlers := map[string]func(http.ResponseWriter, *http.Request) error{"exec": h.exec, "signal": h.signal,
		"stacks": h.stacks}
	handle := handlers[path]
	method := http.MethodPost
	if path == "watch" {
		handle = h.watch
		method = http.MethodGet
	}
	if handle == nil || r.Method != method {
		return false
	}
	if err := handle(w, r); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
	}
	return true
}

// errNotRunning returns the error for a rank that does not run.
func errNotRunning(rank int) error { return fmt.Errorf("rank %d does not run", rank) }

func decode(w http.ResponseWriter, r *http.Request, message any) error {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 8<<20)).Decode(message); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	return nil
}

// perHost returns the ranks of each session; no ranks: all, as nil.
func (h hostRequests) perHost(ranks []int) (map[*session.Session][]int, error) {
	all := map[*session.Session][]int{}
	if len(ranks) == 0 {
		for _, s := range h.sessions.All() {
			all[s] = nil
		}
		if len(all) == 0 {
			return nil, errors.New("no ranks run")
		}
		return all, nil
	}
	for _, rank := range ranks {
		s := h.sessions.Of(rank)
		if s == nil {
			return nil, errNotRunning(rank)
		}
		if !slices.Contains(all[s], rank) {
			all[s] = append(all[s], rank)
		}
	}
	return all, nil
}

func (h hostRequests) signal(w http.ResponseWriter, r *http.Request) error {
	var want control.Signal
	if err := decode(w, r, &want); err != nil {
		return err
	}
	hosts, err := h.perHost(want.Ranks)
	if err != nil {
		return err
	}
	if err := each(hosts, func(s *session.Session, ranks []int) error {
		ctx, cancel := answering(r.Context(), s)
		defer cancel()
		_, err := ask(ctx, s, wire.Ask{Kind: wire.AskSignal, Ranks: ranks, Signal: want.Signal}, 0)
		return err
	}); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// each calls do for all sessions in parallel and returns all errors.
func each(hosts map[*session.Session][]int, do func(*session.Session, []int) error) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for s, ranks := range hosts {
		wg.Go(func() {
			err := do(s, ranks)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// answerTime bounds the time of an answer that takes no more than a moment on the host.
const answerTime = 10 * time.Second

// answering returns a context that ends, with an error that names the host, when the host does not
// answer in time.
func answering(ctx context.Context, s *session.Session) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, answerTime, fmt.Errorf("%s: no answer within %v", s.Host.Name, answerTime))
}

// ask runs an errand and returns its output, at most limit bytes.
func ask(ctx context.Context, s *session.Session, what wire.Ask, limit int) ([]byte, error) {
	e, err := s.Ask(what)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	return e.Result(ctx, limit)
}

// exec runs a command on a host, with the client at the other end of the connection.
func (h hostRequests) exec(w http.ResponseWriter, r *http.Request) error {
	var want control.Exec
	if err := decode(w, r, &want); err != nil {
		return err
	}
	s := h.sessions.Of(want.Rank)
	what := wire.Ask{
		Kind:     wire.AskExec,
		Argv:     want.Argv,
		Ranks:    []int{want.Rank},
		Terminal: want.Terminal,
	}
	if want.Rank < 0 {
		s = h.sessions.On(want.Host)
		what.Ranks = nil
		if s == nil {
			return fmt.Errorf("no ranks run on host %q", want.Host)
		}
	}
	if s == nil {
		return errNotRunning(want.Rank)
	}
	switch {
	case want.Port > 0:
		what.Kind = wire.AskDial
		what.Port = want.Port
	case len(want.Argv) == 0:
		what.Kind = wire.AskTerminal
	}
	conn, early, err := control.Upgrade(w, r)
	if err != nil {
		return nil // Upgrade has already answered the client
	}
	defer conn.Close()
	e, err := s.Ask(what)
	if err != nil {
		_ = frames.NewWriter(conn).SendJSON(frames.Last, wire.ErrandEnd{Code: launcher.CodeLaunch, Error: err.Error()})
		return nil
	}
	var input sync.WaitGroup
	input.Go(func() {
		defer e.Close() // the client has gone, or is done
		for {
			kind, data, err := frames.Read(early)
			if err == nil && kind == frames.In {
				err = e.Input(data)
			}
			var size wire.Terminal
			if err == nil && kind == frames.Size && json.Unmarshal(data, &size) == nil {
				e.Resize(size)
			}
			if err != nil {
				return
			}
		}
	})
	ctx, cancel := context.WithCancel(r.Context())
	input.Go(func() {
		control.AwaitHangUp(ctx, conn) // a host or a command that takes no input would keep the client
		e.Close()
	})
	relay(e, frames.NewWriter(conn))
	cancel()
	conn.Close()
	input.Wait()
	return nil
}

// relay writes the output of a command, and its end.
func relay(e *session.Errand, to *frames.Writer) {
	kinds := map[wire.Tell]byte{wire.TellOut: frames.Out, wire.TellErr: frames.Err, wire.TellEnd: frames.Last}
	for {
		what, data, err := e.Next(context.Background()) // the errand ends with the client or the host
		if err != nil {
			what = wire.TellEnd
			data, _ = json.Marshal(wire.ErrandEnd{Code: launcher.CodeLaunch, Error: err.Error()})
		} else if what == wire.TellEnd {
			end, err := e.End(data)
			if err != nil {
				end = wire.ErrandEnd{Code: launcher.CodeLaunch, Error: err.Error()}
			}
			data, _ = json.Marshal(end)
		}
		if err := to.Send(kinds[what], data); err != nil || what == wire.TellEnd {
			return
		}
	}
}
