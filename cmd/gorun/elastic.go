package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/cli/usage"
	"github.com/gorun/gorun/internal/elastic"
	"github.com/gorun/gorun/launcher"
)

// elasticOptions are the flags of a job whose hosts come and go.
type elasticOptions struct {
	minNP, maxNP int
	discovery    string
	slotsPerHost count
	resets       resetLimit
	restarts     count
	wait         seconds
	cooldown     cooldown
}

func (e *elasticOptions) addFlags(flags *pflag.FlagSet) {
	e.slotsPerHost, e.wait = 1, seconds(10*time.Minute)
	flags.StringVar(&e.discovery, "host-discovery-script", "", "elastic job: program that prints the hosts that there are now, one a line: f1:2; it is run each second")
	flags.Var(&e.slotsPerHost, "slots-per-host", "slots of hosts that the discovery script names without")
	flags.IntVar(&e.minNP, "min-np", 0, "elastic job: goes on with so many ranks (default: as -np)")
	flags.IntVar(&e.maxNP, "max-np", 0, "elastic job: grows to so many ranks (default: as many as there are slots)")
	flags.Var(&e.resets, "reset-limit", "elastic job: how often ranks may be lost or added before it ends: 10, or 10/1h within an hour (default: no limit)")
	flags.Var(&e.restarts, "max-restarts", "when a rank fails, start all again, so many times: for programs that know nothing of elastic jobs, as torchrun does")
	flags.Var(&e.wait, "elastic-timeout", "elastic job: how long it waits for enough slots")
	flags.Var(&e.cooldown, "blacklist-cooldown-range", "elastic job: seconds for which a host that failed gets no ranks, at first and at most: 10,300")
}

// given reports whether the job is elastic.
func (e *elasticOptions) given() bool {
	return e.minNP > 0 || e.maxNP > 0 || e.discovery != "" || e.restarts > 0
}

// check finds values that no job can have.
func (o *runOptions) checkElastic(npSet bool) error {
	e := &o.elastic
	switch {
	case e.minNP < 0 || e.maxNP < 0:
		return usage.Errorf("", "--min-np and --max-np are at least 1")
	case e.maxNP > 0 && e.minNP > e.maxNP:
		return usage.Errorf("", "--min-np %d is more than --max-np %d", e.minNP, e.maxNP)
	case npSet && e.minNP > o.np:
		return usage.Errorf("", "-np %d is less than --min-np %d", o.np, e.minNP)
	case npSet && e.maxNP > 0 && o.np > e.maxNP:
		return usage.Errorf("", "-np %d is more than --max-np %d", o.np, e.maxNP)
	case e.discovery != "" && (o.hosts != "" || o.hostfile != ""):
		return usage.Errorf("leave one of them out", "--host-discovery-script beside -H or --hostfile says twice where to run")
	case e.restarts > 0 && e.resets.limit > 0:
		return usage.Errorf("leave one of them out", "--max-restarts and --reset-limit both say how often ranks may be lost")
	case !e.given() && e.resets.limit > 0:
		return usage.Errorf("add --min-np or --host-discovery-script", "--reset-limit: the job is not elastic")
	case !e.given():
		return nil
	}
	for _, no := range []struct {
		given bool
		flag  string
	}{
		{o.nodes > 0, "--nodes"}, {o.ppn > 0 && e.discovery != "", "--ppn"}, {o.mapBy.Order != 0, "--map-by"}, {o.rankBy.Order != 0, "--rank-by"},
		{o.summary, "--summary"}, {o.reportBindings, "--report-bindings"},
	} {
		if no.given {
			return usage.Errorf("leave one of them out", "%s is not for elastic jobs, whose ranks come and go", no.flag)
		}
	}
	return nil
}

// discoverer asks the discovery script which hosts there are, as Horovod's does: a host, or host:slots, a line.
func (e *elasticOptions) discoverer() func(context.Context) ([]hostfile.Host, error) {
	script := elastic.Script{Argv: []string{"/bin/sh", "-c", e.discovery}}
	return func(ctx context.Context) ([]hostfile.Host, error) {
		out, err := script.Run(ctx)
		if err != nil {
			return nil, err
		}
		return elastic.Parse("what "+e.discovery+" prints", out, int(e.slotsPerHost))
	}
}

// discover is the place that the discovery script names.
func (o *runOptions) discover(ctx context.Context) (place, error) {
	ctx, cancel := context.WithTimeout(ctx, max(time.Duration(o.startTimeout), time.Second))
	defer cancel()
	hosts, err := o.elastic.discoverer()(ctx)
	if err != nil {
		return place{}, usage.Errorf("it must print a host per line, such as f1:2, and end with 0", "--host-discovery-script %s: %w", o.elastic.discovery, err)
	}
	return place{hosts: hosts, source: "the discovery script " + o.elastic.discovery}, nil
}

// planElastic is how an elastic job would begin. It waits for slots where there are too few.
func planElastic(ctx context.Context, o *runOptions, programs []program, s surroundings) (place, launcher.Plan, error) {
	if len(programs) > 1 {
		return place{}, launcher.Plan{}, usage.Errorf("run them as jobs of their own", "an elastic job has one program, not %d", len(programs))
	}
	where, err := whereToRun(ctx, o, s)
	if err != nil {
		return place{}, launcher.Plan{}, err
	}
	slots := 0
	for _, h := range where.hosts {
		slots += h.Slots
	}
	np := o.np
	if np == 0 {
		np = where.np
	}
	if np == 0 {
		np = max(slots, o.elastic.minNP)
	}
	if np == 0 {
		return place{}, launcher.Plan{}, usage.Errorf("give -np", "%s names no host, and how many ranks there are to be is not said", where.source)
	}
	if slots < np {
		return where, launcher.Plan{Size: np, Warnings: []string{fmt.Sprintf("there are %d slots for %d ranks: the job begins when there are more", slots, np)}}, nil
	}
	plan, err := launcher.NewPlan(where.hosts, o.request(np))
	return where, plan, err
}

// launchElastic runs the job while it listens to the user.
func launchElastic(ctx context.Context, o *runOptions, where place, plan launcher.Plan, opts launcher.Options, io streams, say *ui) (int, error) {
	wishes := listen(time.Duration(o.timeout), say)
	defer wishes.close()
	opts.Stops, opts.Signals, opts.Pauses = wishes.stops, wishes.signals, wishes.pauses
	steps, err := openEvents(o.jsonEvents, say)
	if err != nil {
		return 0, err
	}
	defer steps.close()
	steps.plan(plan, opts.Programs)
	opts.Follow = steps.follow
	result, err := launcher.RunElastic(ctx, o.wish(where, plan, opts, io), opts)
	if err != nil {
		steps.failed(err)
		return 0, err
	}
	if result.Stopped == launcher.NotStopped && result.Elastic.Code != 0 && result.Cause == nil {
		say.errorf("the job ended: %s", result.Elastic.Cause)
	}
	result.Lost = nil // was said when it happened
	say.conclude(result, plan.Size)
	steps.result(result)
	return result.Code(), nil
}

// wish is what the launcher needs to know of an elastic job.
func (o *runOptions) wish(where place, plan launcher.Plan, opts launcher.Options, io streams) launcher.Elastic {
	e := o.elastic
	w := launcher.Elastic{Hosts: where.hosts, Config: elastic.Config{NP: plan.Size, Min: e.minNP, Max: e.maxNP, Elastic: time.Duration(e.wait),
		ResetLimit: e.resets.limit, ResetWindow: e.resets.within, Cooldown: e.cooldown, Random: rand.Float64}}
	if e.cooldown[0] > 0 { // whoever says how long hosts are kept out has an opinion of those that come and go
		w.Changes = math.MaxInt
	}
	if e.restarts > 0 {
		w.Together, w.ResetLimit, w.Budget = true, int(e.restarts), math.MaxInt
	}
	if e.discovery != "" {
		ask := e.discoverer()
		w.Discover = func(ctx context.Context) ([]hostfile.Host, error) {
			hosts, err := ask(ctx)
			if err != nil {
				err = fmt.Errorf("the discovery script %s: %w", e.discovery, err)
			}
			return hosts, err
		}
	}
	hostname, _ := os.Hostname()
	for _, h := range where.hosts {
		if o.launcher == "local" || isLocal(h, hostname) {
			w.Own = h.Name
		}
	}
	l := o.look(opts.Programs, io)
	w.Prefix = func(p launcher.Plan) (func(rank, fd int, at time.Time) []byte, error) { return l.prefixer(p) }
	if o.save.hidden() != 0 {
		w.SaveAs = func(m elastic.Member, fd int) string {
			path, _ := o.save.path(fd, m.Rank, m.LocalRank, m.Host, os.Getenv("SLURM_JOB_ID")) // what cannot be was found out before
			return path
		}
	}
	return w
}

// resetLimit is how many resets there may be, and within which time.
type resetLimit struct {
	limit  int
	within time.Duration // 0: the whole job
}

func (r *resetLimit) Type() string { return "N[/TIME]" }

func (r *resetLimit) String() string {
	switch {
	case r.limit == 0:
		return ""
	case r.within == 0:
		return strconv.Itoa(r.limit)
	}
	return fmt.Sprintf("%d/%v", r.limit, r.within)
}

func (r *resetLimit) Set(text string) error {
	number, span, windowed := strings.Cut(text, "/")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 {
		return errors.New("want a number of at least 1, such as 10, or 10/1h")
	}
	*r = resetLimit{limit: n}
	if windowed {
		if r.within, err = time.ParseDuration(span); err != nil || r.within <= 0 {
			return errors.New("want a time after the stroke, such as 10/1h")
		}
	}
	return nil
}

// cooldown is for how long a host is set aside: at first, and at most.
type cooldown [2]time.Duration

func (c *cooldown) Type() string { return "MIN,MAX" }

func (c *cooldown) String() string {
	if c[0] == 0 {
		return ""
	}
	return fmt.Sprintf("%g,%g", c[0].Seconds(), c[1].Seconds())
}

func (c *cooldown) Set(text string) error {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) // horovodrun's are two words
	if len(words) != 2 {
		return errors.New("want two numbers of seconds, such as 10,300")
	}
	for i, word := range words {
		s, err := strconv.ParseFloat(word, 64)
		if err != nil || s <= 0 || s > 1e6 {
			return errors.New("want two numbers of seconds, such as 10,300")
		}
		c[i] = time.Duration(s * float64(time.Second))
	}
	if c[0] > c[1] {
		return errors.New("the first number of seconds is at most the second")
	}
	return nil
}
