package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/hosts"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/plan"
	"github.com/gorun/gorun/launcher/transport"
)

// planElastic plans the first epoch of an elastic job. With fewer slots than ranks the job starts
// later.
func planElastic(ctx context.Context, o *settings.Options, programs []program, s hosts.Finder) (hosts.Selection,
	launcher.Plan, error) {
	if len(programs) > 1 {
		return hosts.Selection{}, launcher.Plan{},
			usage.Errorf("run each as a separate job", "an elastic job has one program, not %d", len(programs))
	}
	where, err := hosts.Find(ctx, o, s)
	if err != nil {
		return hosts.Selection{}, launcher.Plan{}, err
	}
	if where.Unasked != nil {
		return where, unplanned(where, o.NP), nil
	}
	slots := where.Slots()
	np := cmp.Or(o.NP, where.NP, max(slots-int(o.Elastic.Spares), o.Elastic.MinNP))
	if np == 0 {
		return hosts.Selection{}, launcher.Plan{},
			usage.Errorf("give -np", "%s names no host, and no number of ranks is given", where.Source)
	}
	if slots < np {
		return where, launcher.Plan{Size: np, Warnings: []string{fmt.Sprintf("there are %d slots for %d ranks: the "+
			"job starts when there are enough", slots, np)}}, nil
	}
	plan, err := plan.New(where.Hosts, o.Request(np))
	return where, plan, err
}

// startElastic runs an elastic job. The console has reported lost hosts during the job, so the
// result names none.
func (r *run) startElastic(ctx context.Context, commands *hostCommands) (launcher.Result, error) {
	request := r.elasticRequest()
	request.Prepare = func(ctx context.Context, h hostfile.Host) error {
		err := commands.setUp(ctx, []hostfile.Host{h}, nil)
		if launch := new(launcher.LaunchError); errors.As(err, &launch) {
			err = launch.Hosts[0].Err
		}
		if err == nil {
			commands.begin([]hostfile.Host{h})
		}
		return err
	}
	result, err := launcher.RunElastic(ctx, request, r.opts)
	if err == nil && result.Stopped == launcher.NotStopped && result.Elastic.Code != 0 && result.Cause == nil {
		r.console.Errorf("the job ended: %s", result.Elastic.Cause)
	}
	result.Lost = nil
	return result, err
}

func (r *run) elasticRequest() launcher.Elastic {
	e := r.o.Elastic
	w := launcher.Elastic{
		Hosts: r.where.Hosts,
		ElasticDriver: launcher.ElasticDriver{
			NP:          r.plan.Size,
			Min:         e.MinNP,
			Max:         e.MaxNP,
			Spares:      int(e.Spares),
			Timeout:     time.Duration(e.Wait),
			ResetLimit:  e.Resets.Limit,
			ResetWindow: e.Resets.Within,
			Cooldown:    e.Cooldown,
			Random:      rand.Float64,
		},
		Slow: r.slow,
	}
	if e.Cooldown[0] > 0 || e.Horovodrun { // an explicit cooldown replaces the limit on changes
		w.Changes = math.MaxInt
	}
	if e.Spares > 0 { // the slots beyond the ranks are the spares'
		w.Max = cmp.Or(w.Max, w.NP)
	}
	w.Horovodrun = e.Horovodrun
	if e.Restarts > 0 {
		w.Together = true
		w.ResetLimit = int(e.Restarts)
		w.Budget = math.MaxInt
	}
	switch {
	case r.pods != nil:
		w.Discover = r.pods.Hosts
	case e.Discovery != "":
		ask := e.Discoverer()
		w.Discover = func(ctx context.Context) ([]hostfile.Host, error) {
			hosts, err := ask(ctx)
			if err != nil {
				err = fmt.Errorf("the discovery script %s: %w", e.Discovery, err)
			}
			return hosts, err
		}
	}
	hostname, _ := os.Hostname()
	for _, h := range r.where.Hosts {
		if e.Horovodrun { // horovodrun removes any host that leaves the list, even its own
			break
		}
		if r.o.Launcher == "local" || transport.IsLocal(h, hostname) {
			w.Own = h.Name
		}
	}
	l := lineStyle(r.o, r.opts.Programs, r.io)
	w.Prefix = func(p launcher.Plan) (func(rank, fd int, at time.Time) []byte, error) { return l.Prefixer(p) }
	if r.o.Save.Hidden() != 0 {
		w.SaveAs = func(host string, rank launcher.Rank, fd int) string {
			// Places has checked the pattern
			path, _ := r.o.Save.Path(fd, rank.Rank, rank.LocalRank, host, os.Getenv("SLURM_JOB_ID"))
			return path
		}
	}
	return w
}
