package job

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/sight/watch"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/session"
)

// newWatch returns the watch of a job. Until it is followed, it only records which ranks have
// ended.
func newWatch(o *settings.Options, plan launcher.Plan, sessions *launcher.Sessions) *watch.Watch {
	agents := func() (all []watch.Agent) {
		for _, s := range sessions.All() {
			all = append(all, watchedAgent{s})
		}
		return all
	}
	return watch.New(agents, plan.Size, places(o, plan))
}

// watchedAgent is a session as a [watch.Agent].
type watchedAgent struct{ *session.Session }

func (a watchedAgent) Index() int                   { return a.Session.Index }
func (a watchedAgent) Host() string                 { return a.Session.Host.Name }
func (a watchedAgent) Placements() []wire.Placement { return a.Ready.Places }
func (a watchedAgent) Spare() bool                  { return a.Identity.Spare != nil && a.Identity.Spare() }

func (a watchedAgent) Readings(ctx context.Context, every time.Duration, took func(data []byte) error) error {
	e, err := a.Ask(wire.Ask{Kind: wire.AskWatch, Every: every})
	if err != nil {
		return err
	}
	defer e.Close()
	return e.Output(ctx, took)
}

// watched passes a job's events on to its watch, and ends it.
type watched struct{ *watch.Watch }

func (w watched) Event(event launcher.Event) {
	switch e := event.(type) {
	case launcher.Started, launcher.Membership:
		w.Started()
	case launcher.Exited:
		w.Exited(e.Exit.Rank, watch.Exit{Code: e.Exit.Code, Signal: e.Exit.Signal, Stopped: e.Exit.Stopped})
	}
}

func (watched) End(ui.Outcome) {}

// places returns the places of the ranks of a job, which change in an elastic job.
func places(o *settings.Options, plan launcher.Plan) (places []watch.Place) {
	if !o.Elastic.Given() {
		for _, h := range plan.Hosts {
			places = append(places, watch.Place{Host: h.Name, Ranks: h.Numbers()})
		}
	}
	return places
}

// Bounds on the time between two samples that a client may ask for.
const (
	minEvery = 200 * time.Millisecond
	maxEvery = time.Hour
)

// watch streams samples as lines of JSON.
func (h hostRequests) watch(w http.ResponseWriter, r *http.Request) error {
	every := time.Second
	if text := r.FormValue("every"); text != "" {
		var err error
		if every, err = time.ParseDuration(text); err != nil || every < minEvery || every > maxEvery {
			return fmt.Errorf("every=%.40q: expected a duration from %v to %v", text, minEvery, maxEvery)
		}
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	flush := http.NewResponseController(w)
	out := json.NewEncoder(w)
	_ = flush.Flush()
	_ = h.watched.Follow(r.Context(), func(time.Duration) time.Duration { return every }, func(s watch.Sample) error {
		if err := out.Encode(s); err != nil {
			return err // the client has gone
		}
		return flush.Flush()
	})
	return nil
}
