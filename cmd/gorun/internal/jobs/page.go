package jobs

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/net/admit"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/sight/report"
	"github.com/gorun/gorun/internal/sight/watch"
	"github.com/gorun/gorun/internal/sight/watch/record"
	"github.com/gorun/gorun/internal/usage"
)

const (
	pageEvery = time.Second
	// pageLast is for how long the page of a job that has ended can still be fetched.
	pageLast = 3 * time.Second
	pageTime = 30 * time.Second // bound on the writing of one page
)

// page is the report of a running job, as a server of HTTP offers it.
type page struct {
	path string // has a secret
	mu   sync.Mutex
	live *record.Live
	over bool
}

// Page offers the report of a running job to the user's browser, at a port of this machine's
// loopback addresses, until the job ends. Port 0 is any free one.
func Page(ctx context.Context, place control.Place, name string, port int, console *ui.UI) error {
	f, err := running(ctx, place, name)
	if err != nil {
		return err
	}
	listeners, err := onLoopback(ctx, port)
	if errors.Is(err, syscall.EADDRINUSE) {
		return usage.Errorf("leave --port out to take any free one", "port %d of this machine is in use", port)
	}
	if err != nil {
		return fmt.Errorf("offer the page of job %s: %w", f.ID, err)
	}
	p := newPage(f.Job)
	server := admit.NewServer(p)
	server.WriteTimeout = pageTime
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	defer server.Close()
	for _, l := range listeners {
		pending := admit.NewPending(admit.Bounds{Own: 16, Other: 4, Elsewhere: 4})
		serving.Go(func() { _ = server.Serve(pending.Listener(l)) })
	}
	console.Notef("the page of job %s is http://%s%s (Ctrl-C ends this)", f.ID, listeners[0].Addr(), p.path)
	ended := make(chan control.Job, 1)
	serving.Go(func() {
		over, _ := f.Client.Wait(ctx) // without an answer it is not known how the job ended
		ended <- over
	})
	if err := p.follow(ctx, f.Client); err != nil {
		return fmt.Errorf("watch job %s: %w", f.ID, err)
	}
	over := <-ended
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.end(over)
	console.Notef("job %s has ended", f.ID)
	select {
	case <-time.After(pageLast):
	case <-ctx.Done():
	}
	return nil
}

func newPage(job control.Job) *page {
	run := record.Run{
		ID:      job.ID,
		Name:    job.Name,
		Program: job.Program,
		Size:    job.Size,
		Began:   job.Began,
	}
	for _, h := range job.Hosts {
		run.Places = append(run.Places, watch.Place{Host: h.Host, Ranks: h.Ranks})
	}
	return &page{path: "/" + rand.Text() + "/", live: record.NewLive(run)}
}

// follow adds samples until the job ends.
func (p *page) follow(ctx context.Context, client *control.Client) error {
	body, err := client.Get(ctx, "/v1/watch?every="+pageEvery.String())
	if err != nil {
		return err
	}
	defer body.Close()
	for samples := json.NewDecoder(body); ; {
		var s watch.Sample
		switch err := samples.Decode(&s); {
		case err == io.EOF || ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		p.mu.Lock()
		p.live.Add(s)
		p.mu.Unlock()
	}
}

// end adds how the job ended.
func (p *page) end(job control.Job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.live.Run.Ended = job.Ended
	p.live.Run.Cause = job.Cause
	if job.Code != nil {
		p.live.Run.Code = *job.Code
	}
}

// ServeHTTP answers the user's own processes that know the path.
func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	known := subtle.ConstantTimeCompare([]byte(r.URL.Path), []byte(p.path)) == 1
	if r.Method != http.MethodGet || !known || !admit.IsRequestOfTheUser(r.Context()) {
		w.Header().Set("Connection", "close")
		http.Error(w, "gorun report --live prints the address of its page", http.StatusNotFound)
		return
	}
	admit.Authenticated(r.Context())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	p.mu.Lock()
	run := report.Run{Record: p.live.Record, Live: !p.over}
	p.mu.Unlock()
	_ = report.Write(w, run) // the browser may have gone
}
