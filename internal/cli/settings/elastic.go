package settings

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/cli/usage"
	"github.com/gorun/gorun/internal/elastic"
)

// ElasticOptions are the flags of a job whose hosts come and go.
type ElasticOptions struct {
	MinNP, MaxNP int
	Discovery    string
	slotsPerHost count
	Resets       resetLimit
	Restarts     count
	Wait         Seconds
	Cooldown     cooldown
}

func (e *ElasticOptions) addFlags(flags *pflag.FlagSet) {
	e.slotsPerHost, e.Wait = 1, Seconds(10*time.Minute)
	flags.StringVar(&e.Discovery, "host-discovery-script", "", "elastic job: program that prints the hosts that there are now, one a line: f1:2; it is run each second")
	flags.Var(&e.slotsPerHost, "slots-per-host", "slots of hosts that the discovery script names without")
	flags.IntVar(&e.MinNP, "min-np", 0, "elastic job: goes on with so many ranks (default: as -np)")
	flags.IntVar(&e.MaxNP, "max-np", 0, "elastic job: grows to so many ranks (default: as many as there are slots)")
	flags.Var(&e.Resets, "reset-limit", "elastic job: how often ranks may be lost or added before it ends: 10, or 10/1h within an hour (default: no limit)")
	flags.Var(&e.Restarts, "max-restarts", "when a rank fails, start all again, so many times: for programs that know nothing of elastic jobs, as torchrun does")
	flags.Var(&e.Wait, "elastic-timeout", "elastic job: how long it waits for enough slots")
	flags.Var(&e.Cooldown, "blacklist-cooldown-range", "elastic job: seconds for which a host that failed gets no ranks, at first and at most: 10,300")
}

// Given reports whether the job is elastic.
func (e *ElasticOptions) Given() bool {
	return e.MinNP > 0 || e.MaxNP > 0 || e.Discovery != "" || e.Restarts > 0
}

// check finds values that no job can have.
func (o *Options) checkElastic(npSet bool) error {
	e := &o.Elastic
	switch {
	case e.MinNP < 0 || e.MaxNP < 0:
		return usage.Errorf("", "--min-np and --max-np are at least 1")
	case e.MaxNP > 0 && e.MinNP > e.MaxNP:
		return usage.Errorf("", "--min-np %d is more than --max-np %d", e.MinNP, e.MaxNP)
	case npSet && e.MinNP > o.NP:
		return usage.Errorf("", "-np %d is less than --min-np %d", o.NP, e.MinNP)
	case npSet && e.MaxNP > 0 && o.NP > e.MaxNP:
		return usage.Errorf("", "-np %d is more than --max-np %d", o.NP, e.MaxNP)
	case e.Discovery != "" && (o.Hosts != "" || o.Hostfile != ""):
		return usage.Errorf("leave one of them out", "--host-discovery-script beside -H or --hostfile says twice where to run")
	case e.Restarts > 0 && e.Resets.Limit > 0:
		return usage.Errorf("leave one of them out", "--max-restarts and --reset-limit both say how often ranks may be lost")
	case !e.Given() && e.Resets.Limit > 0:
		return usage.Errorf("add --min-np or --host-discovery-script", "--reset-limit: the job is not elastic")
	case !e.Given():
		return nil
	}
	for _, no := range []struct {
		given bool
		flag  string
	}{
		{o.Nodes > 0, "--nodes"}, {o.Ppn > 0 && e.Discovery != "", "--ppn"}, {o.MapBy.Order != 0, "--map-by"}, {o.RankBy.Order != 0, "--rank-by"},
		{o.Summary, "--summary"}, {o.ReportBindings, "--report-bindings"},
	} {
		if no.given {
			return usage.Errorf("leave one of them out", "%s is not for elastic jobs, whose ranks come and go", no.flag)
		}
	}
	return nil
}

// Discoverer asks the discovery script which hosts there are, as Horovod's does: a host, or host:slots, a line.
func (e *ElasticOptions) Discoverer() func(context.Context) ([]hostfile.Host, error) {
	script := elastic.Script{Argv: []string{"/bin/sh", "-c", e.Discovery}}
	return func(ctx context.Context) ([]hostfile.Host, error) {
		out, err := script.Run(ctx)
		if err != nil {
			return nil, err
		}
		return elastic.Parse("what "+e.Discovery+" prints", out, int(e.slotsPerHost))
	}
}

// resetLimit is how many resets there may be, and within which time.
type resetLimit struct {
	Limit  int
	Within time.Duration // 0: the whole job
}

func (r *resetLimit) Type() string { return "N[/TIME]" }

func (r *resetLimit) String() string {
	switch {
	case r.Limit == 0:
		return ""
	case r.Within == 0:
		return strconv.Itoa(r.Limit)
	}
	return fmt.Sprintf("%d/%v", r.Limit, r.Within)
}

func (r *resetLimit) Set(text string) error {
	number, span, windowed := strings.Cut(text, "/")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 {
		return errors.New("want a number of at least 1, such as 10, or 10/1h")
	}
	*r = resetLimit{Limit: n}
	if windowed {
		if r.Within, err = time.ParseDuration(span); err != nil || r.Within <= 0 {
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
