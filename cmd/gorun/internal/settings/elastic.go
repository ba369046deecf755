package settings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/elastic"
	"github.com/gorun/gorun/internal/host/lookup"
	"github.com/gorun/gorun/internal/usage"
)

// ElasticOptions holds the flags of an elastic job.
type ElasticOptions struct {
	MinNP, MaxNP int
	Discovery    string
	slotsPerHost count // 0: one, or for a pod one for each of its GPUs
	Resets       resetLimit
	Restarts     count
	Spares       count
	ReplaceSlow  multiple
	Wait         Seconds
	Cooldown     cooldown
	Horovodrun   bool // decide as horovodrun does, by whose words the job was started
}

// Given reports whether any flag makes the job elastic.
func (e *ElasticOptions) Given() bool {
	return e.MinNP > 0 || e.MaxNP > 0 || e.Discovery != "" || e.Restarts > 0 || e.Spares > 0
}

// HostsChange reports whether hosts may come and go while the job runs.
func (o *Options) HostsChange() bool {
	return o.Elastic.Discovery != "" || o.Pods != "" && o.Elastic.Given()
}

// SlotsPerHost returns --slots-per-host, or 0 without it.
func (e *ElasticOptions) SlotsPerHost() int { return int(e.slotsPerHost) }

// checkElastic reports elastic flags that contradict each other or the rest of the options.
func (o *Options) checkElastic(npSet bool) error {
	e := &o.Elastic
	switch {
	case e.MinNP < 0 || e.MaxNP < 0:
		return faultOf("min-np", "", "and --max-np are at least 1")
	case e.MaxNP > 0 && e.MinNP > e.MaxNP:
		return faultOf("min-np", "leave one of them out, or exchange them",
			"%d is more than --max-np %d", e.MinNP, e.MaxNP)
	case npSet && e.MinNP > o.NP:
		return faultOf("np", fmt.Sprintf("ask for at least %d ranks, or lower --min-np", e.MinNP),
			"%d is less than --min-np %d", o.NP, e.MinNP)
	case npSet && e.MaxNP > 0 && o.NP > e.MaxNP:
		return faultOf("np", fmt.Sprintf("ask for at most %d ranks, or raise --max-np", e.MaxNP),
			"%d is more than --max-np %d", o.NP, e.MaxNP)
	case e.Discovery != "" && (o.Hosts != "" || o.Hostfile != "" || o.Pods != ""):
		return faultOf("host-discovery-script", "leave one of them out",
			"cannot be combined with -H, --hostfile or --hosts-from-pods")
	case e.Given() && o.Pods != "" && o.Hosts != "":
		return faultOf("hosts-from-pods", "choose the pods by their labels alone",
			"cannot be combined with -H in an elastic job")
	case e.Restarts > 0 && e.Resets.Limit > 0:
		return faultOf("max-restarts", "leave one of them out", "and --reset-limit cannot be combined")
	case e.Spares > 0 && (e.Restarts > 0 || e.Horovodrun):
		return faultOf("spares", "leave one of them out", "cannot be combined with --max-restarts or horovodrun's "+
			"rules")
	case e.ReplaceSlow > 0 && e.Spares == 0:
		return faultOf("replace-slow", "add --spares 1, and a slot for it", ": no spare can take a rank's place")
	case !e.Given() && e.Resets.Limit > 0:
		return faultOf("reset-limit", "add --min-np or --host-discovery-script", ": the job is not elastic")
	case !e.Given():
		return nil
	}
	for _, no := range []struct {
		given bool
		flag  string
	}{
		{o.Nodes > 0, "nodes"}, {o.Ppn.N > 0 && o.HostsChange() || o.Ppn.onCores(), "ppn"},
		{o.MapBy.Order != 0, "map-by"}, {o.RankBy.Order != 0, "rank-by"}, {o.Rankfile != "", "rankfile"},
		{o.KeepGoing != 0, "keep-going"}, {o.Summary, "summary"}, {o.ReportBindings, "report-bindings"},
	} {
		if no.given {
			return faultOf(no.flag, "leave one of them out", "does not apply to elastic jobs")
		}
	}
	return nil
}

// Discoverer returns a function that runs the discovery script and parses its output, one host or
// host:slots per line.
func (e *ElasticOptions) Discoverer() func(context.Context) ([]hostfile.Host, error) {
	script := elastic.Script{Argv: []string{"/bin/sh", "-c", e.Discovery}}
	return func(ctx context.Context) ([]hostfile.Host, error) {
		out, err := script.Run(ctx)
		if err != nil {
			return nil, cmp.Or(unstartable(e.Discovery, err), err)
		}
		return elastic.Parse("what "+e.Discovery+" prints", out, max(int(e.slotsPerHost), 1))
	}
}

// unstartable returns why the shell could not start the program that a command line begins with, or
// nil. failed is how the shell ended.
func unstartable(line string, failed error) error {
	words, err := usage.SplitShell(line)
	dir, nowhere := os.Getwd()
	if !errors.As(failed, new(*exec.ExitError)) || cmp.Or(err, nowhere) != nil || len(words) == 0 ||
		!strings.Contains(words[0], "/") {
		return nil
	}
	place := lookup.Place{Dir: dir}
	path, err := place.Find(words[0], "")
	const refused = "Exec format error" // all shells print the text of ENOEXEC
	if err == nil && strings.Contains(failed.Error(), refused) {
		return place.Explain(path, syscall.ENOEXEC)
	}
	return err
}

// resetLimit is how many resets a job may have, and within which window.
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
		return errors.New("expected N or N/DURATION, for example 10 or 10/1h")
	}
	*r = resetLimit{Limit: n}
	if windowed {
		if r.Within, err = time.ParseDuration(span); err != nil || r.Within <= 0 {
			return errors.New("expected N/DURATION, for example 10/1h")
		}
	}
	return nil
}

// multiple is how many times as long as others something takes.
type multiple float64

func (m *multiple) Type() string { return "K" }

func (m *multiple) String() string {
	if *m == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*m), 'g', -1, 64)
}

func (m *multiple) Set(text string) error {
	k, err := strconv.ParseFloat(text, 64)
	if err != nil || !(k >= 1.2 && k <= 1e6) {
		return errors.New("expected how many times as long as others a rank takes, from 1.2, for example 1.5")
	}
	*m = multiple(k)
	return nil
}

// cooldown is the initial and the longest time that a failed host gets no ranks.
type cooldown [2]time.Duration

func (c *cooldown) Type() string { return "MIN,MAX" }

func (c *cooldown) String() string {
	if c[0] == 0 {
		return ""
	}
	return fmt.Sprintf("%g,%g", c[0].Seconds(), c[1].Seconds())
}

func (c *cooldown) Set(text string) error {
	// horovodrun separates them by a blank
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	if len(words) != 2 {
		return errors.New("expected MIN,MAX in seconds, for example 10,300")
	}
	for i, word := range words {
		s, err := strconv.ParseFloat(word, 64)
		if err != nil || s <= 0 || s > 1e6 {
			return errors.New("expected MIN,MAX in seconds, for example 10,300")
		}
		c[i] = time.Duration(s * float64(time.Second))
	}
	if c[0] > c[1] {
		return errors.New("expected MIN,MAX with MIN no larger than MAX")
	}
	return nil
}
